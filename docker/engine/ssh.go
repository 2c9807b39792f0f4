//go:build linux

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// sshBound is how long ssh may take to end once nobody talks through it.
const sshBound = 2 * time.Second

// sshCommand is the command that joins its stdin and stdout to the engine behind
// ssh://user@host:port/socket. It is the docker command's.
func SshCommand(host string) ([]string, error) {
	u, err := url.Parse(host)
	if err != nil {
		return nil, errors.Unwrap(err) // without the URL, in which there may be a password
	}
	_, secret := u.User.Password()
	if u.Hostname() == "" || secret || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s is not as in ssh://user@host:port", u.Redacted())
	}
	args := []string{"ssh"}
	if user := u.User.Username(); user != "" {
		args = append(args, "-l", user)
	}
	if u.Port() != "" {
		args = append(args, "-p", u.Port())
	}
	remote := "docker system dial-stdio"
	if strings.Trim(u.Path, "/") != "" {
		quoted := "'" + strings.ReplaceAll(u.Path, "'", `'\''`) + "'" // a shell reads it there
		remote = "docker --host=unix://" + quoted + " system dial-stdio"
	}
	return append(args, "-o", "ConnectTimeout=30", "-T", "--", u.Hostname(), remote), nil
}

// sshConn is a connection to an engine by ssh, one process each.
type SshConn struct {
	*net.UnixConn // the other end is ssh's stdin and stdout
	Cmd           *exec.Cmd
	stderr        bytes.Buffer
	ended         chan struct{} // closed when ssh has ended; failed and stderr are to be read then
	failed        error
}

func DialSSH(command []string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("make a pair of sockets: %w", err)
		}
		ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "ssh")
		defer ours.Close()
		defer theirs.Close()
		conn, err := net.FileConn(ours)
		if err != nil {
			return nil, err
		}
		c := &SshConn{UnixConn: conn.(*net.UnixConn), ended: make(chan struct{})}
		// It lives as long as the connection, not as the request that opened it. If we
		// die, it ends for want of stdin.
		c.Cmd = exec.Command(command[0], command[1:]...)
		c.Cmd.Stdin, c.Cmd.Stdout, c.Cmd.Stderr = theirs, theirs, &c.stderr
		c.Cmd.WaitDelay = sshBound                             // a shared ssh may stay, and keep stderr
		c.Cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // or a ^C would end it before us
		if err := c.Cmd.Start(); err != nil {
			conn.Close()
			return nil, fmt.Errorf("start ssh: %w", err)
		}
		go func() {
			c.failed = c.Cmd.Wait()
			close(c.ended)
		}()
		return c, nil
	}
}

func (c *SshConn) Read(p []byte) (int, error) {
	n, err := c.UnixConn.Read(p)
	return n, c.why(err)
}

func (c *SshConn) Write(p []byte) (int, error) {
	n, err := c.UnixConn.Write(p)
	return n, c.why(err)
}

// why says what ssh has said, if the connection ended since it could not go on.
func (c *SshConn) why(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	select {
	case <-c.ended:
		if c.failed != nil {
			said := strings.ReplaceAll(strings.TrimSpace(c.stderr.String()), "\r\n", "; ")
			return fmt.Errorf("%s: %w: %s", strings.Join(c.Cmd.Args, " "), c.failed, strings.ReplaceAll(said, "\n", "; "))
		}
	case <-time.After(sshBound):
	}
	return err
}

// Close ends ssh, and returns once it has ended.
func (c *SshConn) Close() error {
	err := c.UnixConn.Close()
	select {
	case <-c.ended:
	case <-time.After(sshBound):
		c.Cmd.Process.Kill()
		<-c.ended
	}
	return err
}
