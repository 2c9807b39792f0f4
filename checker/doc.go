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
// Histories of other people's may be of a lock without leases: package mutex judges those.
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
// and so is every witness, by a translation of its own (porcupine.go). Package bruteforce
// tries every order and every instant on raw events, and shares no line with either. The
// comparisons of millions of histories with porcupine and with judges too dumb to be
// wrong, such as that, are themselves put to the test: each of
// these mistakes, made in a copy of the checker, of package mutex, of the facts or of
// the reader of Jepsen's histories, is found by such a comparison
// (testdata/mutants, TestMutants).
//
//	acts-after-end           a client may act after its end
//	all-must-be-free         a lock is free when all nodes are, not a majority
//	any-token-votes          a key is a vote whatever token it holds
//	anybody-releases         anybody's release ends the hold of an owner-mutex
//	asking-is-holding        who has set a key holds the lock while its acquire is under way
//	begin-by-last            the hold begins by the last return that shows it
//	belief-taken-back        an extension that comes back after its own deadline takes back the belief before
//	both-hold-refused        whom the fence refuses counts as the valid holder, though another held too
//	brief-before-firm        a brief hold may come before what its client held earlier
//	brief-is-firm            a hold of one instant counts as one that lasted
//	burial-not-sought        brief holds are not looked for inside firm ones
//	buried-at-end            a hold that may end with the one around it counts as buried
//	call-not-widened         the error of the stamps widens no call
//	cause-by-first           the cause of the first node leads, not that of the most
//	clock-gain-unasked       a clock need not have gained what a key was short
//	clock-lost-to-the-tick   a clock is behind by less than a millisecond, too
//	cluster-not-closed       an incident never ends, so later ones are not counted
//	counted-twice            time in which three believe is counted twice
//	dead-still-wait          a dead client counts among those that a grant went past
//	death-ends-nothing       belief goes on after the client's kill
//	deleted-before-due       a deletion counts though the key would have been over by then
//	deletes-from-any         a command that deleted a key before it was set counts
//	due-to-the-tick          a key whose time is over within a millisecond had been shortened
//	earlier-release-counts   a release that was sent before a key was set was meant for it
//	early-to-the-tick        a key is short of its time by less than a millisecond of the clock
//	end-by-first             the hold lasts to the first call that shows it
//	ended-later-counts       an end that came after the second key counts
//	ended-still-waits        an acquire that had ended by a loss waits for its lock
//	equal-token-stale        a token as high as the highest accepted counts as below it
//	error-ignored            a window is not shrunk by the error of the stamps at its end
//	extended-after-release   a lock may be extended after it was given back
//	extension-forgotten      the lease lapses as its acquire claimed
//	extension-gives-nothing  the time of a key counts from its set, not from its last expiry
//	extension-opens-nothing  an extension that is granted after an acquire of unknown outcome opens no window
//	failed-is-unknown        a release that failed may have happened, for a mutex, too
//	failed-may-happen        what failed may have happened
//	failover-is-restart      a key that a failover lost counts as forgotten by a restart
//	failure-after-own        after a failure the client itself counts as another
//	first-come-first-had     of operations that may come first, the one that was called first does
//	first-extension-lasts    the lease lapses as the first extension claimed
//	first-fault-ends         of the faults that may end the first does
//	first-turn-only          a clock shows a deadline only before its next turn but one
//	furthest-forgotten       only neighbours are compared, not the window that reaches furthest
//	gap-closed               an extension that comes back late fills the gap before it
//	gap-is-silence           a node that may have left out facts has told all
//	gap-not-told             that facts may be missing is not said
//	granted-since            a token of somebody granted the lock meanwhile counts as an earlier one
//	handles-not-mixed        two handles of one client may hold by turns
//	harness-is-stranger      what lockpick deletes counts as a stranger's
//	healed-excuses           a fault that was over when the holder released excuses the key that it left
//	hold-from-last-window    a hold begins where belief began for the last time
//	kept-ends                a key that survived a restart counts as ended by it
//	key-outlives-delete      a node has a key until its time is over, though a release deleted it
//	lapse-known              where nobody knows when a lease lapses it never does
//	lapse-not-early          the error of the stamps brings no lapse forward
//	lapse-once               a key sees only those steps back that were under way
//	last-extension-free      the last extension that a limit allows is one too many
//	last-instant-forgotten   who is granted by the last event believes nothing
//	last-instant-of-the-dead who is gone believes on
//	late-acquire-granted     an acquire that returned after its deadline is written for Jepsen as granted
//	late-release-ends        a release called after the client held by another handle may have ended the hold before
//	late-release-forgotten   a release deletes no key that was set after it had been sent
//	latest-for-earliest      of equal overlaps the latest is shown
//	latest-unknown-release   of the unknown releases the last counts
//	latest-vote-asked        an attempt begins when its last vote was asked for
//	lease-from-return        a lease counts from the return of its acquire
//	left-is-rival            a key of an attempt that is over counts as a rival's
//	left-key-forgotten       a release deletes no key of an earlier round
//	lived-to-the-tick        a claim is too long by less than a millisecond, too
//	lost-at-end              a no that returned as the hold ended counts as inside it
//	nodes-unasked            a release of unknown outcome frees nothing before the lease is over
//	not-put-in-order         windows stay in the order in which acquires returned
//	one-is-free              a lock is free when the first node is
//	one-must-wait            a lock that several clients want in turn need not be had
//	one-wrong-clock          two wrong clocks count as one
//	order-within-forgotten   "not held" between two answers that show a hold is no conflict where stamps allow it
//	own-claim-forgotten      a long session has the deadline of its acquire
//	own-grant-next           a grant to the lost holder itself counts as a hand-over
//	own-key-unseen           a key that an earlier round left is not in the way of the same token
//	owner-re-enters          an owner-mutex may be acquired again by who holds it
//	phantom-extends          only a release shows a hold without an acquire
//	power-is-kill            a power loss on a node that keeps a file counts as a kill
//	queue-counts-equals      who called at the same instant counts as earlier
//	queue-forgets            who leaves the queue still waits
//	quorum-unasked           a session counts though its keys are on fewer nodes than a quorum
//	refusal-before-acquire   a "not held" before an acquire of unknown outcome took effect counts against it
//	refusal-deletes          a release that the node refused with an error deletes its key
//	refusal-ignored          a definite no to an extension ends no belief
//	release-after-refusal    a release that came after a "not held" may have been what ended the hold before it
//	release-ends-nothing     belief goes on after the release was called
//	release-unnamed          a key that a release left counts as one of a failed attempt
//	released-is-rival        a key is a rival's as long as its release was not answered
//	released-twice           a lock may be given back twice
//	restart-excuses          a node that was down once excuses the key that is left, though it has answered since
//	restart-no-excuse        a holder that lost its connection to a node has left its key there itself
//	return-names-another     a return may name another session than its call
//	returned-may-come        an operation that has returned may still come first
//	returns-for-another-key  a return may be of another key than its call
//	round-by-acquire         a round goes on in the next acquire
//	round-keeps-first        what is asked with the node that is asked again stays in the round before
//	round-not-seen           a node that is asked again begins no round
//	set-ends-nothing         another value over a key does not end it
//	short-to-the-tick        a key got too little time by less than a millisecond, too
//	shortening-ignored       an extension that shortens the lease leaves it as it was
//	silence-claims-for-ever  an extension that names no deadline takes the lock for ever
//	silence-claims-nothing   an extension that names no deadline claims nothing after an acquire without an answer
//	slow-by-fault            a fault that kept a holder from getting its lock excuses nobody
//	spare-of-first           the votes to spare are the first session's
//	stamps-stay-equal        operations of one time in a file of Jepsen's are at one instant
//	step-of-other-node       a step counts whatever node it turned
//	steps-over-count         a step back that was over before a key was set lets it live longer
//	stopped-from-begin       a client that does something as it is stopped does so while it is
//	stray-unseen             a release by who does not hold an owner-mutex is fine
//	token-at-return          a token counts as earlier if it was returned at the instant at which the next attempt began
//	touching-by-number       of what is written for Jepsen at one instant, the lower number goes first
//	touching-is-overlap      windows that only touch count as overlapping
//	turn-comes-twice         an operation that came first comes once more at its return
//	turn-is-lost             what has no outcome explains nothing
//	turned-before            a clock that was set before the key counts as what ended it
//	unknown-acquire-claims   an acquire without an answer claims the lock for ever
//	unknown-release-ignored  a release of unknown outcome never takes effect
//	unknown-release-keeps    a release of unknown outcome ends no hold of an owner-mutex
//	unseen-of-own            what a session has overwritten itself hides what another had written
//	vote-after-return        a key that came after the acquire returned is a vote
//	without-log-by-client    writes that both were acknowledged count only of two clients
//	wrong-clock-unseen       a key that got too little time for a wrong clock counts as given shorter
//	wrong-min                an overlap lasts to the later of the two ends
//
// Deliberately missing: how the history was made, and what somebody hoped for.
package checker
