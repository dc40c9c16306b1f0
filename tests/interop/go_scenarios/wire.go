package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Values gives "PREFIX-00000", "PREFIX-00001", …; sorted.
func Values(prefix string, count int) []string {
	made := make([]string, count)
	for i := range made {
		made[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return made
}

// Wire is a network that can be cut.
type Wire struct {
	lock  sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

// NewWire gives one that is whole.
func NewWire() *Wire { return &Wire{conns: map[net.Conn]struct{}{}} }

// DialContext opens a connection, as net.Dialer's does.
func (w *Wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.cut {
		_ = conn.Close()
		return nil, errors.New("the wire is cut")
	}
	w.conns[conn] = struct{}{}
	return conn, nil
}

// Dial is DialContext without a context.
func (w *Wire) Dial(network, address string) (net.Conn, error) {
	return w.DialContext(context.Background(), network, address)
}

// Drop closes every connection; new ones may be opened.
func (w *Wire) Drop() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for conn := range w.conns {
		_ = conn.Close()
	}
	clear(w.conns)
}

// Cut closes every connection, and none is opened any more.
func (w *Wire) Cut() {
	w.lock.Lock()
	w.cut = true
	w.lock.Unlock()
	w.Drop()
}
