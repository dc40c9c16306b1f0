// Package scenarios runs named scenarios against a broker and prints a line of JSON for each.
package scenarios

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Patience is what one scenario may take.
const Patience = 45 * time.Second

const closingPatience = 15 * time.Second

// Scenario is one test. One that is Alone runs when no other does.
type Scenario struct {
	Name  string
	Run   func(*S)
	Alone bool
}

// S is what a running scenario has: a context that ends with its patience, and ways to fail.
type S struct {
	Ctx       context.Context
	Bootstrap string
	Name      string

	cleanups []func()
}

// Brokers gives the addresses at which clients begin.
func (s *S) Brokers() []string { return strings.Split(s.Bootstrap, ",") }

type failure struct{ reason string }
type skip struct{ reason string }

var numbers atomic.Int64

// Unique gives a name that nothing else in this run has.
func (s *S) Unique(what string) string {
	return fmt.Sprintf("%s-%s-%d-%d", s.Name, what, os.Getpid(), numbers.Add(1))
}

// Fail ends the scenario; only from its own goroutine.
func (s *S) Fail(format string, arguments ...any) {
	panic(failure{fmt.Sprintf(format, arguments...)})
}

// Skip ends the scenario without a verdict.
func (s *S) Skip(reason string) { panic(skip{reason}) }

// Must fails the scenario if there is an error.
func (s *S) Must(doing string, err error) {
	if err != nil {
		s.Fail("%s: %v", doing, err)
	}
}

// Want fails the scenario unless the condition holds.
func (s *S) Want(condition bool, format string, arguments ...any) {
	if !condition {
		s.Fail(format, arguments...)
	}
}

// Equal fails the scenario unless the values are printed alike.
func (s *S) Equal(what string, got, wanted any) {
	if g, w := fmt.Sprintf("%v", got), fmt.Sprintf("%v", wanted); g != w {
		s.Fail("%s: got %.600s, wanted %.600s", what, g, w)
	}
}

// Eventually asks again until the condition holds; it fails with the last answer when the patience ends.
func (s *S) Eventually(what string, holds func() (bool, string)) {
	for {
		good, said := holds()
		if good {
			return
		}
		select {
		case <-s.Ctx.Done():
			s.Fail("%s: still %s", what, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Cleanup has something called when the scenario has ended, the latest first.
func (s *S) Cleanup(call func()) { s.cleanups = append(s.cleanups, call) }

// RestartBroker has whoever started the broker start it anew, and returns when that is done.
func (s *S) RestartBroker() {
	asked := os.Getenv("RESTARTS")
	if asked == "" {
		s.Skip("the broker cannot be restarted from here")
	}
	s.Must("asking for a restart", os.WriteFile(filepath.Join(asked, "wanted-"+s.Name), nil, 0o600))
	done := filepath.Join(asked, "done-"+s.Name)
	s.Eventually("restart of the broker", func() (bool, string) {
		_, err := os.Stat(done)
		return err == nil, "under way"
	})
	wrong, err := os.ReadFile(done)
	s.Must("reading how the restart went", err)
	if len(wrong) > 0 {
		s.Fail("the broker: %s", wrong)
	}
	s.Must("forgetting the restart", os.Remove(done))
}

type result struct {
	Test    string  `json:"test"`
	Outcome string  `json:"outcome"`
	Reason  string  `json:"reason"`
	Seconds float64 `json:"seconds"`
}

func (scenario Scenario) run(bootstrap string) (verdict result) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	s := &S{Ctx: ctx, Bootstrap: bootstrap, Name: scenario.Name}
	began := time.Now()
	verdict = result{Test: scenario.Name, Outcome: "passed"}
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			verdict.Outcome, verdict.Reason = "failed", why.reason
		case skip:
			verdict.Outcome, verdict.Reason = "skipped", why.reason
		default:
			verdict.Outcome, verdict.Reason = "failed", fmt.Sprintf("panic: %v\n%s", why, debug.Stack())
		}
		verdict.Seconds = time.Since(began).Seconds()
		cancel()
		if !s.cleanUp() && verdict.Outcome == "passed" {
			verdict.Outcome, verdict.Reason = "failed", "a client that was closed did not end"
		}
	}()
	scenario.Run(s)
	return verdict
}

// cleanUp tells whether everything ended within its patience.
func (s *S) cleanUp() bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := len(s.cleanups) - 1; i >= 0; i-- {
			s.cleanups[i]()
		}
	}()
	select {
	case <-done:
		return true
	case <-time.After(closingPatience):
		return false
	}
}

// Main runs the scenarios, several at a time, and ends the program: with 1 if one failed to be run at all.
func Main(all []Scenario) {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9092", "host:port of each broker, with commas between")
	only := flag.String("only", "", "regular expression of the scenarios to run")
	atOnce := flag.Int("at-once", 4, "scenarios that run at the same time")
	flag.Parse()
	wanted := regexp.MustCompile(*only)
	var lock sync.Mutex
	printed := json.NewEncoder(os.Stdout)
	run := func(scenario Scenario) {
		verdict := scenario.run(*bootstrap)
		lock.Lock()
		defer lock.Unlock()
		_ = printed.Encode(verdict)
	}
	queue := make(chan Scenario)
	var workers sync.WaitGroup
	for range *atOnce {
		workers.Go(func() {
			for scenario := range queue {
				run(scenario)
			}
		})
	}
	for _, scenario := range all {
		if !scenario.Alone && wanted.MatchString(scenario.Name) {
			queue <- scenario
		}
	}
	close(queue)
	workers.Wait()
	for _, scenario := range all {
		if scenario.Alone && wanted.MatchString(scenario.Name) {
			run(scenario)
		}
	}
}
