// Package facts puts a history in order, once, for all who judge, draw or translate it.
//
// Its nouns are Facts (a history in order), Session (one acquire call and all that was
// done with its handle), Operation (a call and its return), Lock (a key and its
// sessions), Attempt (one round of asking the nodes, as the links saw it), Fault (one
// fault on one target, from its invoke to its end), Window and Belief (where a session's
// client surely believed that it held its lock), Turn (a clock that was turned, as
// numbers), Stay (a value of a key on a node, as the node told it) and Write (an entry of
// the resource's log, with the version that it met). Each has a file of its name;
// reading.go is the one pass over the events that finds them, and malformed.go says what
// no client can have done.
//
// Read takes any history, also one that nobody can have recorded: it pairs what makes
// sense, says in Malformed what does not, and never panics. Whoever needs to know which
// return answers which call, when a fault was over, or until when somebody believed,
// asks here, so that a picture and a verdict can't disagree.
//
// Facts are read at once; what is a function of them, such as attempts and lives, when it
// is first asked for.
//
// Deliberately missing: what any of it means. Causes, harm and words are for those who
// judge and draw.
package facts
