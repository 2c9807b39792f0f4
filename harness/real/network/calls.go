package network

import (
	"time"

	"lockpick/harness/real/wire"
	"lockpick/harness/resp"
	"lockpick/nemesis"
)

// What Remote asks and Serve answers. True time is by the clock of Serve's machine.
const (
	callClock  = "clock"  // what the machine's clock shows
	callAsk    = "ask"    // one command to a server, past the links
	callOpen   = "open"   // makes the links of a run
	callBegin  = "begin"  // says when its true time is zero
	callClose  = "close"  // ends them, once their last events are told
	callState  = "state"  // says how a server is
	callGate   = "gate"   // keeps all data from and to a node
	callUngate = "ungate" //
	callTurn   = "turn"   // lets a node's links lead to another server
	callTell   = "tell"   // lets nodes tell of their keys
	callAgain  = "again"  // takes in that a node is back
	callEnds   = "ends"   // and that one is about to end
	callLives  = "lives"  // which it did not
	callFollow = "follow" // makes the link by which a replica follows a node
	callCut    = "cut"
	callMend   = "mend"
	callShape  = "shape"
	callClear  = "unshape"
	callPorts  = "ports"  // says where a link dials from
	callSilent = "silent" // sees that a link is cut below
	callHeard  = "heard"  // and that it is no more
	callTap    = "tap"
	callPass   = "pass" // lets what a tap holds pass
	callLose   = "lose"

	noticeEvent = "event" // a fact
	noticeHit   = "hit"   // a tap has its message
)

// The errors by which the engine branches.
var known = wire.Errors{"idle": nemesis.ErrIdle, "ended": nemesis.ErrEnded}

// Reading is what the clock of Serve's machine shows.
type Reading struct {
	Clock string        `json:"clock"` // which clock it is; "": unknown
	Now   time.Duration `json:"now"`   // true time there
}

// opening is a run's links.
type opening struct {
	Seed    uint64            `json:"seed"`
	Host    string            `json:"host"`  // the address that links listen on
	Ports   int               `json:"ports"` // the first of the ports that they dial from; 0: any
	Nodes   []string          `json:"nodes"` //
	Clients []Client          `json:"clients"`
	Addrs   map[string]string `json:"addrs"` // of nodes and the resource
}

// state is how a server is, which nobody sees from the links that lead there.
type state struct {
	Addr string `json:"addr"`
	Down bool   `json:"down"` // it does not run
	Mute bool   `json:"mute"` // it runs and can't answer
}

// leading is where links to a node lead.
type leading struct {
	Node string `json:"node"`
	Addr string `json:"addr"`
}

// coming is a node that is back, or what has taken its place.
type coming struct {
	leading
	Why string `json:"why"`
}

// ending is a node that is about to end.
type ending struct {
	Node    string `json:"node"`
	InOrder bool   `json:"inOrder"`
}

type asking struct {
	Addr   string        `json:"addr"`
	Args   []string      `json:"args"`
	Within time.Duration `json:"within,omitempty"` // 0: as long as such a command may take
}

// Reply is a server's, which it was asked for and gave between two instants of true time
// there.
type Reply struct {
	Value resp.Value    `json:"value"`
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
}

type cutting struct {
	Link string `json:"link"`
	Mode string `json:"mode"`
	Way  string `json:"way"`
}

type shaping struct {
	Link    string          `json:"link"`
	Traffic nemesis.Traffic `json:"traffic"`
}

type tapping struct {
	ID      int64             `json:"id"`
	Message nemesis.OnMessage `json:"message"`
}
