// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"net/url"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"gopkg.in/yaml.v3"
)

// A report is what became of one rule: how long its evaluations took, how many failed, and what the last one said.
type report struct {
	Group    string  `json:"group"`
	Rule     string  `json:"rule"`
	Seconds  float64 `json:"seconds"`
	Failures int     `json:"failures"`
	Message  string  `json:"message"`
}

func (r *report) failed(err interface{}) {
	r.Failures++
	r.Message = fmt.Sprint(err)
}

// A group is evaluated next at a moment in milliseconds, and from then on at every interval.
type group struct {
	*rules.Group
	next    int64
	reports []*report
}

func (g *group) evaluate() {
	g.Eval(context.Background(), time.UnixMilli(g.next).UTC())
	for i, rule := range g.Rules() {
		g.reports[i].Seconds += rule.GetEvaluationDuration().Seconds()
		if err := rule.LastError(); err != nil {
			g.reports[i].failed(err)
		}
	}
	g.next += g.Interval().Milliseconds()
}

// A player evaluates groups in the order of time and, at one moment, in the order of its list.
type player struct {
	groups  []*group
	running *group
	history *history
}

func (p *player) play(end int64) {
	for {
		p.running = nil
		for _, each := range p.groups {
			if each.next <= end && (p.running == nil || each.next < p.running.next) {
				p.running = each
			}
		}
		if p.running == nil {
			p.history.reveal(math.MaxInt64)
			return
		}
		p.history.reveal(p.running.next)
		p.running.evaluate()
	}
}

// Log listens for templates that fail: the engine tells nobody else.
func (p *player) log(pairs ...interface{}) error {
	said := map[interface{}]interface{}{}
	for i := 0; i+1 < len(pairs); i += 2 {
		said[pairs[i]] = pairs[i+1]
	}
	alert, named := said["alert"].(yaml.Node)
	if !named || said["err"] == nil || p.running == nil {
		return nil
	}
	for i, rule := range p.running.Rules() {
		if rule.Name() == alert.Value {
			p.running.reports[i].failed(said["err"])
			break
		}
	}
	return nil
}

// Load makes groups ready to be evaluated from a moment on. Every is the interval of groups that do not name one; with
// offsets, groups begin within their interval.
func load(files []string, every time.Duration, offsets bool, h *history, start int64) (*player, error) {
	p := &player{history: h}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1 << 30, Timeout: time.Hour, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return every.Milliseconds() },
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		Context: context.Background(), ExternalURL: &url.URL{Scheme: "http", Host: "localhost"},
		QueryFunc: asks(engine, h), GroupLoader: source{},
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Appendable: h, Queryable: h, Logger: log.LoggerFunc(p.log),
	})
	for _, file := range files {
		content, errs := rules.FileLoader{}.Load(file)
		if len(errs) > 0 {
			return nil, errs[0]
		}
		loaded, errs := manager.LoadGroups(every, labels.EmptyLabels(), "", nil, file)
		if len(errs) > 0 {
			return nil, errs[0]
		}
		for _, each := range content.Groups {
			g := &group{Group: loaded[rules.GroupKey(file, each.Name)], next: start}
			if offsets {
				g.next += offset(each.Name, g.Interval().Milliseconds())
			}
			for _, rule := range g.Rules() {
				if alert, ok := rule.(*rules.AlertingRule); ok {
					alert.SetRestored(true) // there is nothing to restore, and no ALERTS before that is done
				}
				g.reports = append(g.reports, &report{Group: each.Name, Rule: rule.Name()})
			}
			p.groups = append(p.groups, g)
		}
	}
	return p, nil
}

// Reverse turns the order of groups around: nothing may hang on it.
func (p *player) reverse() {
	for i, j := 0, len(p.groups)-1; i < j; i, j = i+1, j-1 {
		p.groups[i], p.groups[j] = p.groups[j], p.groups[i]
	}
}

// A live Prometheus spreads groups over their interval by a hash of what they are called.
func offset(name string, interval int64) int64 {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return int64(hash.Sum64() % uint64(interval))
}
