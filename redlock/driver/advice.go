// Package advice says what to do about errors of connections to Redis nodes: of passwords, ACLs and
// certificates, which no lock can do anything about.
//
// Deliberately missing: errors that pass, such as a node that is down.
package driver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// With is err with what to do about it in parentheses behind it, or err itself where nothing is
// known about it.
func Advise(err error) error {
	if do := advise(err); do != "" {
		return fmt.Errorf("%w (%s)", err, do)
	}
	return err
}

// said is what is in errors that nodes send, and that they end TLS with.
var said = []struct{ text, do string }{
	{"NOAUTH ", "give the node's password, and a user name if it has users"},
	{"WRONGPASS ", "check the user name and the password; ACL LIST on the node says which users are on"},
	{"called without any password configured", "give no password, or set one on the node"},
	{"NOPERM ", "have the node's ACL allow it; package redlock/driver says what a lock needs"},
	{"The user executing the script can't run this", "have the node's ACL allow it; package redlock/driver says what a lock needs"},
	{"ACL failure in script", "have the node's ACL allow it; package redlock/driver says what a lock needs"},
	{"DB index is out of range", "give a database that the node has"},
	{"tls: certificate required", "give this client's certificate, in Certificates of its TLS configuration"},
	{"tls: expired certificate", "renew this client's certificate"},
	{"tls: unknown certificate authority", "give this client a certificate of an authority that the node trusts"},
	{"tls: bad certificate", "give this client a certificate of an authority that the node trusts"},
}

func advise(err error) string {
	if err == nil {
		return ""
	}
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "give the certificate of the node's authority, in RootCAs of the TLS configuration"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the node's certificate, or set this machine's clock"
	case errors.As(err, &name):
		return "name in ServerName of the TLS configuration whom the node's certificate is for"
	case errors.As(err, &noTLS):
		return "leave TLS out, or give the node's TLS port"
	}
	for _, s := range said {
		if strings.Contains(err.Error(), s.text) {
			return s.do
		}
	}
	return ""
}
