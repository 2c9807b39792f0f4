// Package checker judges a history, as package facts puts it in order, and nothing
// else: it knows no backend, no fault injector and no expectation.
//
// Check answers with a Verdict: for each property holds, violated, undecided or
// not exercised, why in one sentence, and where it is violated the cause and a
// Witness, the numbers of the events that prove it. What was never put to the
// test does not hold (occasions.go). Before any property come the
// assumptions: a history that is malformed or vacuous is undecided, whatever
// else it shows, and so is one of a fault that hit nothing (in_vain.go), or of a run in
// which somebody else than the plan hit a process (unplanned.go). Mutual exclusion is
// judged by belief windows (facts.Window, windows.go), and lease-linearizable by the
// spans in which sessions must have held (lease.go).
// The second is put before porcupine as a second judge wherever it is small
// enough, and every violation of either (porcupine.go).
//
// A Sentinel judges mutual exclusion while the run goes on (sentinel.go), and
// Visualize draws what was violated as porcupine sees it (visualize.go).
//
// Check and Visualize wait for real time when they ask the second judge, so call
// them outside any bubble of virtual time.
//
// # Causes
//
// Why two sessions could have one lock is not inferred from what clients were answered. The
// nodes tell what became of each key (history.Life): any two quorums share a node, and there
// the key by which the first session was granted had ended when the second was granted
// (cause.go). For each such node the first row that fits says how:
//
//	a session's keys are on fewer nodes than a quorum          never-set
//	it got less time than the TTL, for a wrong clock           expired-early; both clocks: clocks-disagree
//	the second came when its time was over                     given-shorter, granted-late, client-clock
//	deleted by a client, by a stranger / by lockpick           deleted-by-other / deleted-by-harness
//	gone with all others / for want of memory                  flushed / evicted
//	not there, or an older one, after a failover               failed-over
//	likewise after a power loss, on a node that keeps a file   lost-unsynced
//	likewise after any other restart                           restarted-and-forgot
//	expired, and the node's clock had gained that much         expired-early
//	another value was put over it                              overwritten
//	none of that was told, or it can't be                      unexplained
//
// What befell a key before is no matter where its time would have been over by then: the
// second would have been granted all the same. The rows of all common nodes are the cause
// (Result.Losses), each with the fact and the steps of the plan that did it; the one that
// holds on the most nodes gives it its name. A record without the nodes' word (Params.Life)
// is judged all the same, and its overlaps are unexplained.
//
// # Why to trust it
//
// What holds is proven by a certificate that is verified operation by operation
// (lease_certificate.go). What is small enough is put before porcupine as well,
// and so is every witness. The comparisons of millions of histories with porcupine
// and with judges too dumb to be wrong are themselves put to the test: each of
// these mistakes, made in a copy of the checker or of the facts, is found by them
// (testdata/mutants, TestMutants).
//
//	after-at-once            held at the instant of the return counts as held after it
//	any-token-votes          a key is a vote whatever token it holds
//	before-at-once           held at the instant of the call counts as held before it
//	begin-by-max             the hold begins by the last return that shows it
//	both-hold-refused        whom the fence refuses counts as the valid holder, though another held too
//	brief-is-firm            a hold of one instant counts as one that lasted
//	burial-not-sought        brief holds are not looked for inside firm ones
//	buried-at-end            a hold that may end with the one around it counts as buried
//	call-not-widened         the error of the stamps widens no call
//	cause-by-first           the cause of the first node leads, not that of the most
//	clock-gain-unasked       a clock need not have gained what a key was short
//	cluster-not-closed       an incident never ends, so later ones are not counted
//	counted-twice            time in which three believe is counted twice
//	death-ends-nothing       belief goes on after the client's kill
//	deleted-before-due       a deletion counts though the key would have been over by then
//	deletes-from-any         a command that deleted a key before it was set counts
//	end-by-first             the hold lasts to the first call that shows it
//	ended-later-counts       an end that came after the second key counts
//	ended-still-waits        an acquire that had ended by a loss waits for its lock
//	equal-token-stale        a token as high as the highest accepted counts as below it
//	error-ignored            a window is not shrunk by the error of the stamps at its end
//	extension-forgotten      the lease lapses as its acquire claimed
//	extension-gives-nothing  the time of a key counts from its set, not from its last expiry
//	failover-is-restart      a key that a failover lost counts as forgotten by a restart
//	failure-after-own        after a failure the client itself counts as another
//	first-fault-ends         of the faults that may end the first does
//	first-turn-only          a clock shows a deadline only before its next turn but one
//	furthest-forgotten       only neighbours are compared, not the window that reaches furthest
//	gap-closed               an extension that comes back late fills the gap before it
//	gap-not-told             that facts may be missing is not said
//	granted-since            a token of somebody granted the lock meanwhile counts as an earlier one
//	harness-is-stranger      what lockpick deletes counts as a stranger's
//	hold-from-last-window    a hold begins where belief began for the last time
//	kept-ends                a key that survived a restart counts as ended by it
//	key-outlives-delete      a node has a key until its time is over, though a release deleted it
//	lapse-by-max             of the extensions that may be the last, the longest counts
//	lapse-not-early          the error of the stamps brings no lapse forward
//	lapse-once               a key sees only those steps back that were under way
//	last-extension-free      the last extension that a limit allows is one too many
//	latest-for-earliest      of equal overlaps the latest is shown
//	latest-unknown-release   of the unknown releases the last counts
//	latest-vote-asked        an attempt begins when its last vote was asked for
//	left-is-rival            a key of an attempt that is over counts as a rival's
//	lost-at-begin            a no that was called as the hold began counts as inside it
//	lost-at-end              a no that returned as the hold ended counts as inside it
//	not-put-in-order         windows stay in the order in which acquires returned
//	one-wrong-clock          two wrong clocks count as one
//	own-claim-forgotten      a long session has the deadline of its acquire
//	own-grant-next           a grant to the lost holder itself counts as a hand-over
//	phantom-extends          only a release shows a hold without an acquire
//	power-is-kill            a power loss on a node that keeps a file counts as a kill
//	queue-counts-equals      who called at the same instant counts as earlier
//	queue-forgets            who leaves the queue still waits
//	quorum-unasked           a session counts though its keys are on fewer nodes than a quorum
//	refusal-ignored          a definite no to an extension ends no belief
//	release-ends-nothing     belief goes on after the release was called
//	released-twice           a lock may be given back twice
//	session-unordered        a session's operations may overlap where stamps are equal
//	set-ends-nothing         another value over a key does not end it
//	shortening-ignored       an extension that shortens the lease leaves it as it was
//	silence-claims-for-ever  an extension that names no deadline takes the lock for ever
//	spare-of-first           the votes to spare are the first session's
//	step-of-other-node       a step counts whatever node it turned
//	steps-over-count         a step back that was over before a key was set lets it live longer
//	stopped-from-begin       a client that does something as it is stopped does so while it is
//	token-at-return          a token counts as earlier if it was returned at the instant at which the next attempt began
//	touching-is-overlap      windows that only touch count as overlapping
//	turned-before            a clock that was set before the key counts as what ended it
//	unknown-acquire-claims   an acquire without an answer claims the lock for ever
//	unknown-release-ignored  a release of unknown outcome never takes effect
//	unknown-returns          an operation of unknown outcome took effect before its return
//	unseen-of-own            what a session has overwritten itself hides what another had written
//	vote-after-return        a key that came after the acquire returned is a vote
//	wrong-clock-unseen       a key that got too little time for a wrong clock counts as given shorter
//	wrong-min                an overlap lasts to the later of the two ends
//
// Deliberately missing: how the history was made, and what somebody hoped for.
package checker
