// SPDX-License-Identifier: Apache-2.0

// Replay evaluates Prometheus rules on recorded samples with Prometheus' own rule engine, without a server:
// every group at its own moments, over a history in memory. `for`, `keep_firing_for`, stale markers, templates and
// ALERTS are Prometheus' code. Samples are read from standard input, results written to standard output (columns.go).
//
// Exit codes: 0 done, 1 failed, 2 a rule file was rejected.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"sort"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

func main() {
	every := flag.Duration("every", 30*time.Second, "evaluation interval of groups that do not name one")
	offsets := flag.Bool("offsets", false, "evaluate every group at its own moment within its interval")
	late := flag.Duration("late", 0, "how long after an evaluation its results can be read, as where they are stored first")
	reverse := flag.Bool("reverse", false, "evaluate the groups of one moment in the reverse order")
	keep := flag.String("keep", "", "further series that come back beside ALERTS: a regular expression of their names")
	from := flag.Int64("from", 0, "further series come back from this moment on (milliseconds since the epoch)")
	flag.Parse()
	debug.SetGCPercent(400) // histories live until the end, so looking for garbage often finds little

	wanted, err := regexp.Compile("^(?:" + *keep + ")$")
	fail(err, 1)
	h, told, err := read(os.Stdin)
	fail(err, 1)
	h.late = late.Milliseconds()
	given := 0
	for _, s := range h.all.series {
		given += len(s.times)
	}
	p, err := load(flag.Args(), *every, *offsets, h, told.Start)
	fail(err, 2)
	if *reverse {
		p.reverse()
	}
	p.play(told.End)

	reports := []*report{}
	for _, each := range p.groups {
		reports = append(reports, each.reports...)
	}
	head := map[string]interface{}{"rules": reports, "samples": given}
	fail(write(os.Stdout, head, kept(h, wanted, *from)), 1)
}

// Kept is what comes back, in the order of the labels: ALERTS whole, further series from a moment on.
func kept(h *history, wanted *regexp.Regexp, from int64) []*series {
	found := []*series{}
	for name, f := range h.families {
		for _, s := range f.series {
			if name == "ALERTS" {
				found = append(found, s)
			} else if first := s.index(from); wanted.MatchString(name) && first < len(s.times) {
				found = append(found, &series{s.labels, s.times[first:], s.values[first:]})
			}
		}
	}
	sort.Slice(found, func(i, j int) bool { return labels.Compare(found[i].labels, found[j].labels) < 0 })
	return found
}

func fail(err error, code int) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code)
	}
}
