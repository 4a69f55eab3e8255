package workload

// rocksdb has the service times of a key-value store under GET and SCAN, as Skyloft (SOSP 2024) measured them.
var rocksdb = openKind("rocksdb", "half of the requests are GETs of 0.95 us, half SCANs of 591 us.", .95, 591, .5)
