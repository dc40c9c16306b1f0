package scenarios

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strconv"
	"time"
)

// RefusedWithin is how soon a client has to say that it was not let in.
const RefusedWithin = 15 * time.Second

// Way is a way to connect to the secured broker.
type Way struct {
	Name, Mechanism, Bootstrap string
}

// Ways are all there are; one without a mechanism shows a certificate.
func Ways() []Way {
	safe := os.Getenv("SECURED_SAFE")
	return []Way{
		{"secured_scram", "SCRAM-SHA-512", safe},
		{"secured_plain", "PLAIN", safe},
		{"secured_oauthbearer", "OAUTHBEARER", safe},
		{"secured_mutual_tls", "", os.Getenv("SECURED_MUTUAL")},
	}
}

// Renewed is the listener whose sessions end while a client reads.
func Renewed() Way {
	return Way{"secured_reauthentication", "SCRAM-SHA-512", os.Getenv("SECURED_BRIEF")}
}

// Told gives what the program is told of the secured broker; the scenario is skipped where there is none.
func (s *S) Told(name string) string {
	value := os.Getenv("SECURED_" + name)
	if value == "" {
		s.Skip("there is no secured broker")
	}
	return value
}

// At has clients of this scenario connect to a listener of the secured broker.
func (s *S) At(way Way) {
	s.Told("CA")
	s.Bootstrap = way.Bootstrap
}

// ReadingTime is how long a client has to read until its session was renewed often enough.
func (s *S) ReadingTime() time.Duration {
	ms, err := strconv.Atoi(s.Told("READING_MS"))
	s.Must("reading READING_MS", err)
	return time.Duration(ms) * time.Millisecond
}

// TLS trusts the secured broker, and shows it a certificate if it is to.
func (s *S) TLS(shown bool) *tls.Config {
	authority, err := os.ReadFile(s.Told("CA"))
	s.Must("reading the authority", err)
	made := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	s.Want(made.RootCAs.AppendCertsFromPEM(authority), "the authority is no PEM")
	if shown {
		certificate, err := tls.LoadX509KeyPair(s.Told("CERT"), s.Told("KEY"))
		s.Must("reading the certificate", err)
		made.Certificates = []tls.Certificate{certificate}
	}
	return made
}
