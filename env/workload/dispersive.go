package workload

// dispersive is the load of Shinjuku, ghOSt and Skyloft (SOSP 2024): few requests are 2500 times as long as the others.
var dispersive = openKind("dispersive", "99.5 % of requests need 4 us, 0.5 % need 10 ms.", 4, 10000, .005)
