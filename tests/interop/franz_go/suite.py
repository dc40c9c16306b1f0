"""franz-go: its client kgo and its admin client kadm, in a small program of ours."""

from tests.interop.go_programs import client_suite

MODULE = "github.com/twmb/franz-go"
SUITE = client_suite("franz-go", {"franz-go": MODULE, "kadm": f"{MODULE}/pkg/kadm"})
