package workload

// bimodal is DISP2 of Persephone (SOSP 2021).
var bimodal = openKind("bimodal", "half of the requests need 1 us, half 100 us.", 1, 100, .5)
