//go:build linux

package adapter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"lockpick/harness/lock/exec"
)

func (t *trial) extends() {
	if !slices.Contains(t.adapter.Hello.Can, exec.CanExtend) {
		t.skip("extend", "it doesn't say that it can")
		return
	}
	h, err := t.acquire("check-3")
	if err != nil {
		t.say("extend", "", err)
		return
	}
	defer h.Release(t.ctx)
	was := h.Deadline()
	time.Sleep(20 * time.Millisecond)
	if err = h.Extend(t.ctx); err == nil && !h.Deadline().After(was) && !was.IsZero() {
		err = errors.New("the deadline did not move: answer an extend with the new until")
	}
	if !t.say("extend", "", err) {
		return
	}
	if why := t.untold(); why != "" {
		t.skip("extend what is lost", why)
		return
	}
	var no *exec.Refused
	saw := ""
	if err = t.remove("check-3"); err == nil {
		if err = h.Extend(t.ctx); err == nil {
			if votes, _ := t.votes(t.adapter.Hello.KeyPrefix+"check-3", checkTTL/2); votes > len(t.nodes)/2 {
				saw = "its library has set the key anew, which a verdict may blame it for"
			} else {
				err = errors.New("the key was deleted, and it says that it extended it")
			}
		} else if errors.As(err, &no) {
			saw, err = "it says "+no.No, nil
		}
	}
	t.say("extend what is lost", saw, err)
}

func (t *trial) loses() {
	if !slices.Contains(t.adapter.Hello.Can, exec.CanLose) {
		t.skip("told of a loss", "it doesn't say that it tells")
		return
	}
	h, err := t.acquire("check-4")
	what, back, patience := "the key was deleted", func() error { return nil }, 2*checkTTL
	switch {
	case err != nil:
	case t.stays():
		what, patience = "all nodes stood still", storeLoss
		back, err = freeze(t.ctx, t.nodes)
	default:
		err = t.remove("check-4")
	}
	began := time.Now()
	if err == nil {
		select {
		case <-h.Lost():
		case <-time.After(patience):
			err = fmt.Errorf("%s, and it told nothing for %v", what, patience)
		}
	}
	err = errors.Join(err, back())
	t.say("told of a loss", fmt.Sprintf("after %v", time.Since(began).Round(time.Millisecond)), err)
	if h != nil {
		h.Release(t.ctx)
	}
}
