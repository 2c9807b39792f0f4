package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A session with tracking is notified when a key that it may have cached changes: a key that it has
// read or, with BCAST, a key with a given prefix (tracking.c in Redis).
//
//	GET k ──► trackReads: table[k] += session
//	SET k, or its expiry ──► keyChanged ──► invalidate k ──► session, or its redirection target

// tracking holds a session's tracking options.
type tracking struct {
	broadcast      bool
	prefixes       []string // for BCAST
	optIn, optOut  bool
	noLoop         bool  // the session is not notified of its own changes
	redirectID     int64 // session notified in place of this one; 0: none
	redirectBroken bool  // the other session has ended
}

// trackingState holds a node's tracking state.
type trackingState struct {
	readers      map[string]map[int64]*Session  // sessions that have read a key, by key
	changedKeys  map[string]map[string]*Session // for BCAST, by prefix: the changed keys and the session, or nil, that changed each
	deferredKeys []any                          // keys to report to the current session after its reply; a nil element means all keys
}

// trackReads records the keys that a command has read, if the session tracks them.
func (s *Session) trackReads(c command, a []string) {
	t := s.tracking
	if c.keysRead == 0 || t == nil || t.broadcast || t.optIn && !s.caching || t.optOut && s.caching {
		return
	}
	keys := a[1:]
	if c.keysRead == 1 {
		keys = a[1:2]
	}
	for _, key := range keys {
		if s.node.readers[key] == nil {
			s.node.readers[key] = map[int64]*Session{}
		}
		s.node.readers[key][s.id] = s
	}
}

// keyChanged notifies all sessions that watch or track a key.
func (n *Node) keyChanged(key string, expired bool) {
	for s := range n.watchers[key] {
		s.watchChanged = true
	}
	for prefix, keys := range n.changedKeys {
		if _, known := keys[key]; !known && strings.HasPrefix(key, prefix) {
			keys[key] = n.issuer(expired)
		}
	}
	readers := n.readers[key]
	if len(readers) == 0 {
		return
	}
	delete(n.readers, key)
	for _, id := range slices.Sorted(maps.Keys(readers)) {
		switch s := readers[id]; {
		case s.tracking == nil || s.tracking.broadcast || s.tracking.noLoop && s == n.currentSession:
		case s == n.currentSession:
			n.deferredKeys = append(n.deferredKeys, key)
		default:
			s.invalidate([]any{key})
		}
	}
}

// issuer returns the session whose command changes a key, or nil if the key expires or a script
// changes it.
func (n *Node) issuer(expired bool) *Session {
	if expired || n.inScript {
		return nil
	}
	return n.currentSession
}

// allKeysChanged notifies all sessions of a flush.
func (n *Node) allKeysChanged() {
	for key, watchers := range n.watchers {
		if n.lookup(key) == nil {
			continue
		}
		for s := range watchers {
			s.watchChanged = true
		}
	}
	clear(n.readers)
	for _, id := range slices.Sorted(maps.Keys(n.openSessions)) {
		switch s := n.openSessions[id]; {
		case s.tracking == nil:
		case s == n.currentSession:
			n.deferredKeys = append(n.deferredKeys, nil)
		default:
			s.invalidate(nil)
		}
	}
}

// sendDeferred sends the current session the notifications that must follow its reply.
func (s *Session) sendDeferred() {
	for _, key := range s.node.deferredKeys {
		switch {
		case s.tracking == nil:
		case key == nil:
			s.invalidate(nil)
		default:
			s.invalidate([]any{key})
		}
	}
	s.node.deferredKeys = nil
}

// invalidationChannel is the channel on which RESP2 sessions receive notifications redirected to
// them.
const invalidationChannel = "__redis__:invalidate"

// invalidate notifies a session, or its redirection target, that keys have changed. nil stands for
// all keys.
func (s *Session) invalidate(keys []any) {
	var payload any = keys
	if keys == nil {
		payload = nil
	}
	target, redirected := s, s.tracking.redirectID != 0
	if redirected {
		if target = s.node.openSessions[s.tracking.redirectID]; target == nil {
			s.tracking.redirectBroken = true
			if s.resp3 {
				s.sendPush(push{"tracking-redir-broken", s.tracking.redirectID})
			}
			return
		}
	}
	switch {
	case target.resp3:
		target.sendPush(push{"invalidate", payload})
	case redirected && target.isSubscribed():
		target.sendPush(push{"message", invalidationChannel, payload})
	}
}

// broadcast sends each prefix's changed keys, in one message per session.
func (n *Node) broadcast() {
	if len(n.changedKeys) == 0 {
		return
	}
	for _, prefix := range slices.Sorted(maps.Keys(n.changedKeys)) {
		keysOfPrefix := n.changedKeys[prefix]
		if len(keysOfPrefix) == 0 {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(n.openSessions)) {
			s := n.openSessions[id]
			if t := s.tracking; t == nil || !t.broadcast || !slices.Contains(t.prefixes, prefix) {
				continue
			}
			var keys []any
			for _, key := range slices.Sorted(maps.Keys(keysOfPrefix)) {
				if !s.tracking.noLoop || keysOfPrefix[key] != s {
					keys = append(keys, key)
				}
			}
			if len(keys) > 0 {
				s.invalidate(keys)
			}
		}
		clear(keysOfPrefix)
	}
}

// untrack removes a session, and prefixes that no other session tracks, from the tracking state.
func (s *Session) untrack() {
	for prefix := range s.node.changedKeys {
		inUse := false
		for _, other := range s.node.openSessions {
			inUse = inUse || other != s && other.tracking != nil && slices.Contains(other.tracking.prefixes, prefix)
		}
		if !inUse {
			delete(s.node.changedKeys, prefix)
		}
	}
	for key, readers := range s.node.readers {
		if delete(readers, s.id); len(readers) == 0 {
			delete(s.node.readers, key)
		}
	}
}

// trackedKeys lists the keys whose expiry must be reported to a session.
func (n *Node) trackedKeys() (keys []string) {
	if len(n.readers) == 0 && len(n.changedKeys) == 0 {
		return nil
	}
	for key, v := range n.keys {
		tracked := n.readers[key] != nil
		for prefix := range n.changedKeys {
			tracked = tracked || strings.HasPrefix(key, prefix)
		}
		if tracked && v.expires != 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Expire removes expired keys that a session tracks. Redis removes all expired keys, ten times a
// second. For keys that no session tracks, the difference can't be observed.
func (n *Node) Expire() {
	for _, key := range n.trackedKeys() {
		n.lookup(key)
	}
	n.commit()
}

// HasListeners reports whether a push is pending or will be sent when a key expires.
func (n *Node) HasListeners() bool {
	return len(n.pushSessions) > 0 || len(n.trackedKeys()) > 0
}

// clientTracking implements CLIENT TRACKING.
func clientTracking(n *Node, s *Session, a []string) any {
	var options tracking
	for i := 3; i < len(a); i++ {
		switch word := strings.ToUpper(a[i]); {
		case word == "BCAST":
			options.broadcast = true
		case word == "OPTIN":
			options.optIn = true
		case word == "OPTOUT":
			options.optOut = true
		case word == "NOLOOP":
			options.noLoop = true
		case word == "PREFIX" && i+1 < len(a):
			i++
			options.prefixes = append(options.prefixes, a[i])
		case word == "REDIRECT" && i+1 < len(a):
			i++
			if errReply := options.redirectTo(n, a[i]); errReply != "" {
				return errReply
			}
		default:
			return syntaxError
		}
	}
	switch {
	case strings.EqualFold(a[2], "ON"):
		return s.track(options)
	case strings.EqualFold(a[2], "OFF"):
		s.tracking = nil
		s.untrack()
		return ok
	}
	return syntaxError
}

func (t *tracking) redirectTo(n *Node, id string) failure {
	if t.redirectID != 0 {
		return "ERR A client can only redirect to a single other client"
	}
	target, isInt := parseInteger(id)
	if !isInt {
		return notInteger
	}
	if n.openSessions[target] == nil {
		return "ERR The client ID you want redirect to does not exist"
	}
	t.redirectID = target
	return ""
}

// track turns tracking on or changes its options.
func (s *Session) track(t tracking) any {
	old := tracking{}
	if s.tracking != nil {
		old = *s.tracking
	}
	wasTracking := s.tracking != nil
	switch {
	case !t.broadcast && len(t.prefixes) > 0:
		return failure("ERR PREFIX option requires BCAST mode to be enabled")
	case wasTracking && old.broadcast != t.broadcast:
		return failure("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
	case t.broadcast && (t.optIn || t.optOut):
		return failure("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case t.optIn && t.optOut:
		return failure("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case t.optIn && old.optOut || t.optOut && old.optIn:
		return failure("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	}
	if t.broadcast {
		if errReply := checkOverlap(old.prefixes, t.prefixes); errReply != "" {
			return errReply
		}
		if len(t.prefixes) == 0 {
			t.prefixes = []string{""}
		}
		for _, prefix := range t.prefixes {
			if s.node.changedKeys[prefix] == nil {
				s.node.changedKeys[prefix] = map[string]*Session{}
			}
		}
		t.prefixes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(old.prefixes, t.prefixes))))
	}
	s.tracking = &t
	return ok
}

// checkOverlap returns an error if two prefixes match a common key.
func checkOverlap(old, newPrefixes []string) failure {
	overlap := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	for i, p := range newPrefixes {
		for _, q := range old {
			if overlap(p, q) {
				return failure(fmt.Sprintf("ERR Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.", p, q))
			}
		}
		for _, q := range newPrefixes[i+1:] {
			if overlap(p, q) {
				return failure(fmt.Sprintf("ERR Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not overlap.", p, q))
			}
		}
	}
	return ""
}

// clientCaching implements CLIENT CACHING, which selects whether the next command's reads are
// tracked.
func clientCaching(_ *Node, s *Session, a []string) any {
	t := s.tracking
	isYes, isNo := strings.EqualFold(a[2], "YES"), strings.EqualFold(a[2], "NO")
	switch {
	case t == nil:
		return failure("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case isYes && !t.optIn:
		return failure("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case isNo && !t.optOut:
		return failure("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	case !isYes && !isNo:
		return syntaxError
	}
	s.caching = true
	return ok
}

func clientGetRedir(_ *Node, s *Session, _ []string) any {
	if s.tracking == nil {
		return int64(-1)
	}
	return s.tracking.redirectID
}

func clientTrackingInfo(_ *Node, s *Session, _ []string) any {
	t := s.tracking
	if t == nil {
		return pairs{"flags", setReply{"off"}, "redirect", int64(-1), "prefixes", []any{}}
	}
	flags := setReply{"on"}
	for _, f := range []struct {
		on   bool
		name string
	}{
		{t.broadcast, "bcast"}, {t.optIn, "optin"}, {t.optIn && s.caching, "caching-yes"}, {t.optOut, "optout"},
		{t.optOut && s.caching, "caching-no"}, {t.noLoop, "noloop"}, {t.redirectBroken, "broken_redirect"},
	} {
		if f.on {
			flags = append(flags, f.name)
		}
	}
	prefixes := []any{}
	for _, p := range t.prefixes {
		prefixes = append(prefixes, p)
	}
	return pairs{"flags", flags, "redirect", t.redirectID, "prefixes", prefixes}
}

func (s *Session) isSubscribed() bool { return len(s.channels) > 0 }

func subscribe(n *Node, s *Session, a []string) any {
	if s.inExec {
		n.noteUnsupported(s, "SUBSCRIBE in MULTI")
		return failure("ERR Command not allowed inside a transaction")
	}
	var out sequence
	for _, name := range a[1:] {
		if n.channels[name] == nil {
			n.channels[name] = map[int64]*Session{}
		}
		n.channels[name][s.id] = s
		if s.channels == nil {
			s.channels = map[string]bool{}
		}
		s.channels[name] = true
		out = append(out, push{"subscribe", name, int64(len(s.channels))})
	}
	return out
}

// unsubscribe implements UNSUBSCRIBE. Without arguments, it leaves all channels.
func unsubscribe(n *Node, s *Session, a []string) any {
	names := a[1:]
	if len(names) == 0 {
		if names = slices.Sorted(maps.Keys(s.channels)); len(names) == 0 {
			return push{"unsubscribe", nil, int64(0)}
		}
	}
	var out sequence
	for _, name := range names {
		s.leaveChannel(name)
		out = append(out, push{"unsubscribe", name, int64(len(s.channels))})
	}
	return out
}

func (s *Session) leaveChannel(channel string) {
	delete(s.channels, channel)
	if delete(s.node.channels[channel], s.id); len(s.node.channels[channel]) == 0 {
		delete(s.node.channels, channel)
	}
}

func publish(n *Node, _ *Session, a []string) any {
	subscribers := n.channels[a[1]]
	for _, id := range slices.Sorted(maps.Keys(subscribers)) {
		subscribers[id].sendPush(push{"message", a[1], a[2]})
	}
	return int64(len(subscribers))
}

// Push is out-of-band data that a node sends to a session.
type Push struct {
	To     *Session
	Data   []byte
	HangUp bool // the node closes the connection after sending Data
}

// sendPush sends a session a value out of band.
func (s *Session) sendPush(v any) {
	if s == s.node.currentSession {
		s.out = appendReply(s.out, v, s.resp3)
		return
	}
	if len(s.pushBuf) == 0 {
		s.node.pushSessions = append(s.node.pushSessions, s)
	}
	s.pushBuf = appendReply(s.pushBuf, v, s.resp3)
}

// TakePushes returns the pushes since the last call, ordered by session.
func (n *Node) TakePushes() []Push {
	if n.broadcast(); len(n.pushSessions) == 0 {
		return nil
	}
	slices.SortFunc(n.pushSessions, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	var pushes []Push
	for _, s := range n.pushSessions {
		pushes = append(pushes, Push{s, s.pushBuf, s.closing})
		s.pushBuf = nil
	}
	n.pushSessions = n.pushSessions[:0]
	return pushes
}

// Close closes a session.
func (s *Session) Close() {
	n := s.node
	s.unwatchAll()
	for name := range s.channels {
		s.leaveChannel(name)
	}
	s.tracking = nil
	s.untrack()
	delete(n.openSessions, s.id)
	if s.pushBuf = nil; len(n.pushSessions) > 0 {
		n.pushSessions = slices.DeleteFunc(n.pushSessions, func(o *Session) bool { return o == s })
	}
}
