package sim

import (
	"testing"

	"lockpick/harness/resp"
)

// Tokens are numbered by first appearance and replaced wherever they occur. Values that are not a
// command's token are not replaced.
func TestTokensAreMasked(t *testing.T) {
	const first, second = "\x00\xffone", "two"
	placeholders := tokens{}
	stream := resp.NewStream(&resp.Scripts{})
	send := func(words ...string) string {
		payload := resp.Append(nil, words...)
		return string(placeholders.maskRequest(payload, stream.Request(payload, 1)))
	}
	for _, tt := range []struct{ got, want string }{
		{send("SET", "k", first, "NX"), "*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\ntoken-1\r\n$2\r\nNX\r\n"},
		{send("EVALSHA", "0123", "1", "k", second), "*5\r\n$7\r\nEVALSHA\r\n$4\r\n0123\r\n$1\r\n1\r\n$1\r\nk\r\n$3\r\ntoken-2\r\n"},
		{send("ECHO", first), "*2\r\n$4\r\nECHO\r\n$5\r\ntoken-1\r\n"},
		{placeholders.placeholder(first) + placeholders.placeholder(second) + placeholders.placeholder("three"), "token-1token-2three"},
		{tokens(nil).placeholder(first), first},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
	reply := []byte("+OK\r\n*1\r\n$3\r\ntwo\r\n$5\r\n" + first + "\r\n")
	if got, want := string(placeholders.maskReply(reply, stream.Reply(reply, 2))), "+OK\r\n*1\r\n$3\r\ntoken-2\r\n$5\r\ntoken-1\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := tokens(nil).maskRequest(reply, nil); string(got) != string(reply) {
		t.Errorf("without a map: %q", got)
	}
}
