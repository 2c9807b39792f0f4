package proc

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Follow makes it an asynchronous replica of the server at addr, and returns once
// it has all that is there.
func (s *Server) Follow(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("let %s follow %s: %w", s.Name, addr, err)
	}
	ownHost, ownPort, err := net.SplitHostPort(s.At)
	if err != nil {
		return fmt.Errorf("let %s follow %s: %w", s.Name, addr, err)
	}
	// Sentinels find a replica where its master says that it is, and the master sees
	// it come from where the link between them is.
	for _, command := range [][]string{
		{"CONFIG", "SET", "replica-announce-ip", ownHost},
		{"CONFIG", "SET", "replica-announce-port", ownPort},
		{"REPLICAOF", host, port},
	} {
		if _, err := s.tell(ctx, command...); err != nil {
			return err
		}
	}
	for end := time.Now().Add(readyBound); ; {
		info, err := s.tell(ctx, "INFO", "replication")
		if err != nil {
			return err
		}
		if field(info, "master_link_status") == "up" {
			return nil
		}
		if time.Now().After(end) {
			return late(fmt.Sprintf("let %s follow %s: not in step after %v\n%s", s.Name, addr, readyBound, s.Log()))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Promote makes a replica a master of its own, with what it has got by now, and says
// which process that is and how many keys it has.
func (s *Server) Promote(ctx context.Context) (readBack string, err error) {
	if _, err := s.tell(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return "", err
	}
	return s.Promoted(ctx)
}

// Promoted reads back that a replica is a master now, whoever has made it one.
func (s *Server) Promoted(ctx context.Context) (readBack string, err error) {
	info, err := s.tell(ctx, "INFO")
	if err != nil {
		return "", err
	}
	if role := field(info, "role"); role != "master" {
		return "", fmt.Errorf("promote %s: its role is still %q", s.Name, role)
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		return "", fmt.Errorf("promote %s: %w", s.Name, err)
	}
	return fmt.Sprintf("process %s, run_id %.8s (keys: %d)", field(info, "process_id"), field(info, "run_id"), keys), nil
}

// Follows says whether it is a replica of the server at addr and has all of it.
func (s *Server) Follows(ctx context.Context, addr string) (bool, error) {
	info, err := s.tell(ctx, "INFO", "replication")
	if err != nil {
		return false, err
	}
	master := net.JoinHostPort(field(info, "master_host"), field(info, "master_port"))
	return field(info, "role") == "slave" && master == addr && field(info, "master_link_status") == "up", nil
}
