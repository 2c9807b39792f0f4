// Package checker judges a history, as package facts puts it in order, and nothing
// else: it knows no backend, no fault injector and no expectation.
//
// Check answers with a Verdict: for each property holds, violated, undecided or
// not exercised, why in one sentence, and where it is violated the cause and a
// Witness, the numbers of the events that prove it. What was never put to the
// test does not hold. Before any property come the
// assumptions: a history that is malformed or vacuous is undecided, whatever
// else it shows, and so is one of a fault that hit nothing, or of a run in
// which somebody else than the plan hit a process. checker.go has the table of
// properties, numbers.go what is measured besides, incidents.go every violation of which a
// verdict has one and the number, and a package below each judges by facts alone:
//
//	verdict      what is answered, as data, and the words for it
//	spans        arithmetic of spans of true time
//	assumptions  whether the run shows anything
//	windows      where windows of sessions overlap: mutual exclusion, by beliefs
//	cause        why two sessions could have one lock, by what the nodes told
//	lease        lease-linearizability, exactly, with a certificate
//	second       the same question, put to porcupine, and porcupine's picture
//	resource     resource-safety and fencing-order, by the resource's log
//	liveness     deadlock-freedom and fault-tolerance, availability and fairness
//	mutex        locks without leases, of other people's histories
//
// Check and Visualize wait for real time when they ask the second judge, so call
// them outside any bubble of virtual time.
//
// # Why to trust it
//
// What holds is proven by a certificate that is verified operation by operation. What is
// small enough is also given to porcupine, by a translation of its own, and so is the
// witness of a violation of mutual-exclusion or lease-linearizable, unless the lock tells its
// holder nothing. Package bruteforce tries every order and every instant on raw events, and
// shares no line with either. The tests that compare millions of histories with porcupine and
// with such simple judges are themselves tested: testdata/mutants.list lists mistakes in the
// checker, in package mutex, in the facts and in the reader of Jepsen's histories. TestMutants
// plants each in a copy, and a comparison must notice it; a mistake in a cause is noticed by
// the tables of stories.
//
// Deliberately missing: how the history was made, and what somebody hoped for.
package checker
