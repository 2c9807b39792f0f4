// Package timeline lays a run out in time, lane by lane, for a page on which one
// can zoom.
//
// Its nouns are Timeline (plain data: what stands in which row from when to when),
// Lane (one process, or the faults, or a lock's holders), Row (one line of a lane)
// and Item (a bar, or a mark where it takes no time). Of makes a Timeline from the
// history and the verdict; timeline.js draws the part of it that the reader looks
// at, and decides nothing but pixels.
//
//	faults    ───────▨▨▨▨▨▨▨▨──────────   what the nemesis did
//	holders   ──▁▁▁▁▁▁▁▁██▁▁▁──────────   of one lock, believed in; 1 at most
//	c1        ─A▁▁▁C▨▨▨▨▨▨▨▨▨W─R───────   operations; below them belief
//	n1        ──[c1's key ]─[c2's key]─   whose key a node has, until when
//	r1        ────────────●──✗─────────   writes in the order of apply
//
// Where a run is too long to be drawn whole, a window around the first violation
// is, or around the first fault, and of the rest beliefs, leases, holders and
// faults, folded where they are many. Omitted says so.
//
// Deliberately missing: a notion of belief or of harm. Both are the checker's.
package timeline
