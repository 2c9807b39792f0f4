// Package bruteforce judges small histories by trying everything: each order in which one
// lease lock could have given the answers (lease.go), and each instant at which two
// clients could have believed (belief.go). It is slow, and too dumb to be wrong in the
// same way as the judges that it is compared with.
//
// It reads raw events, and shares no line with the checker, with the facts that the
// checker reads or with what the checker asks porcupine: it may import package history and
// nothing else, which the table of the house holds.
//
// Deliberately missing: faults, clocks that are turned and everything else that random
// histories don't have; and any use outside tests.
package bruteforce
