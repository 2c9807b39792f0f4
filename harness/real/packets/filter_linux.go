package packets

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"lockpick/nemesis"
)

// tableName is used by nothing but lockpick, so that the leftover table of an unclosed Filter can
// be found and removed.
const tableName = "lockpick"

// Filter drops packets with a table in one network namespace. It is safe for concurrent use.
type Filter struct {
	mu     sync.Mutex
	conn   *nftables.Conn
	table  *nftables.Table
	chains map[string]*nftables.Chain // by Rule.Way
}

// Open creates the table in the network namespace of the calling thread, and replaces a leftover
// table. At first, no packets are dropped.
func Open() (*Filter, error) {
	// A lasting connection stays in the namespace where it was opened.
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("open packet filter: %w", err)
	}
	f := &Filter{conn: conn, table: &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}, chains: map[string]*nftables.Chain{}}
	conn.AddTable(f.table) // deleting a missing table would fail
	conn.DelTable(f.table)
	conn.AddTable(f.table)
	for way, hook := range map[string]*nftables.ChainHook{nemesis.Request: nftables.ChainHookInput, nemesis.Reply: nftables.ChainHookOutput} {
		f.chains[way] = conn.AddChain(&nftables.Chain{Name: way, Table: f.table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
	}
	if err := conn.Flush(); err != nil {
		return nil, errors.Join(fmt.Errorf("open packet filter: %w", explainPermission(err)), conn.CloseLasting())
	}
	return f, nil
}

// explainPermission adds the required capability to a permission error.
func explainPermission(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w; the capability NET_ADMIN is required (--cap-add NET_ADMIN)", err)
	}
	return err
}

// Ready does nothing. A successful call shows the caller that Open succeeded.
func (f *Filter) Ready() {}

// Drop drops the packets that match a rule until Pass is called.
func (f *Filter) Drop(r Rule) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("drop packets: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch old, err := f.find(r); {
	case err != nil:
		return fmt.Errorf("drop packets: %w", err)
	case old != nil:
		return fmt.Errorf("drop packets: packets of %v are already dropped", r)
	}
	f.conn.AddRule(&nftables.Rule{Table: f.table, Chain: f.chains[r.Way], Exprs: r.exprs(), UserData: []byte(r.String())})
	if err := f.conn.Flush(); err != nil {
		return fmt.Errorf("drop packets of %v: %w", r, explainPermission(err))
	}
	return nil
}

// Lost returns the number of packets that have matched a rule so far.
func (f *Filter) Lost(r Rule) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, lost, err := f.count(r)
	return lost, err
}

// Pass stops dropping packets that match a rule, and returns how many were dropped.
func (f *Filter) Pass(r Rule) (lost int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rule, lost, err := f.count(r)
	if err != nil {
		return 0, err
	}
	if err := f.conn.DelRule(rule); err != nil {
		return 0, fmt.Errorf("let packets of %v pass: %w", r, err)
	}
	if err := f.conn.Flush(); err != nil {
		return 0, fmt.Errorf("let packets of %v pass: %w", r, err)
	}
	return lost, nil
}

// Close removes the table, so that all packets pass.
func (f *Filter) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn.DelTable(f.table)
	if err := errors.Join(f.conn.Flush(), f.conn.CloseLasting()); err != nil {
		return fmt.Errorf("close packet filter: %w", err)
	}
	return nil
}

// count returns the kernel's version of a rule and the number of packets that have matched it.
func (f *Filter) count(r Rule) (*nftables.Rule, int, error) {
	rule, err := f.find(r)
	if err != nil {
		return nil, 0, fmt.Errorf("count lost packets: %w", err)
	}
	if rule != nil {
		for _, e := range rule.Exprs {
			if c, ok := e.(*expr.Counter); ok {
				return rule, int(c.Packets), nil
			}
		}
	}
	return nil, 0, fmt.Errorf("count lost packets: packets of %v are not dropped", r)
}

func (f *Filter) find(r Rule) (*nftables.Rule, error) {
	chain := f.chains[r.Way]
	if chain == nil {
		return nil, nil
	}
	rules, err := f.conn.GetRules(f.table, chain)
	if err != nil {
		return nil, err
	}
	for _, rule := range rules {
		if string(rule.UserData) == r.String() {
			rule.Table, rule.Chain = f.table, chain
			return rule, nil
		}
	}
	return nil, nil
}

// Offsets of the IPv4 and TCP header fields that a rule matches or corrupts.
const (
	headerSum, sourceAddr, destinationAddr = 10, 12, 16
	sourcePort, destinationPort            = 0, 2
)

// exprs returns expressions that match a rule's packets, count them, and drop them.
func (r Rule) exprs() []expr.Any {
	addr, port := uint32(sourceAddr), uint32(sourcePort)
	if r.Way == nemesis.Reply {
		addr, port = destinationAddr, destinationPort
	}
	return append([]expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: addr, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: r.Peer.AsSlice()},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: port, Len: 2},
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: binaryutil.BigEndian.PutUint16(r.First), ToData: binaryutil.BigEndian.PutUint16(r.Last)},
		&expr.Counter{},
	}, r.dropExprs()...)
}

// dropExprs returns expressions that drop a packet. If the kernel drops an outgoing packet, it
// notifies TCP on the same host, which then holds back its data and detects no loss. An outgoing
// packet is therefore sent with an inverted bit in its header checksum, and the peer's kernel
// discards it.
func (r Rule) dropExprs() []expr.Any {
	if r.Way == nemesis.Request {
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: headerSum, Len: 2},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: []byte{0xff, 0xff}, Xor: []byte{0, 1}},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: headerSum, Len: 2},
	}
}
