// Package facts puts a history in order, once, for all who judge or draw it. What follows
// is a pure function of that.
//
// Lives is the life of each key on each node: a Stay is one value's, from the fact that put
// it there to the fact that ended it.
package facts
