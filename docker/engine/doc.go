// Package engine is the Docker engine as lockpick uses it: where it is, what it is asked,
// and what dead owners left there.
//
// Its nouns are Engine; Endpoint, where one listens, as the docker command finds it; About,
// what it says of itself; Making, what a container is made of, who has no privilege but
// those that are named; Share, what a container may use of its machine; Contents, what an
// image has; Login, how a registry is to know us; and Belonging, a thing of the engine's that
// carries the label of its owner, by which Sweep tells what a dead one left.
//
// Every call ends: an engine that takes connections and then says nothing is given up.
//
// Deliberately missing: what containers are for. It knows no node, client or run. It needs
// Linux.
package engine
