// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"math"
	"sort"
	"strings"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// A series is its labels and its samples, oldest first; times are milliseconds since the epoch.
type series struct {
	labels labels.Labels
	times  []int64
	values []float64
}

// A family is the series of one name. Selections are remembered until the family grows.
type family struct {
	series    []*series
	sorted    int // how many of the series are in the order of their labels
	selection map[string][]*series
}

func (f *family) add(s *series) { f.series = append(f.series, s) }

// Aggregations come out of the engine in random order, so the order of labels is what makes sums repeatable.
func (f *family) sort() {
	if f.sorted == len(f.series) {
		return
	}
	sort.Slice(f.series, func(i, j int) bool { return labels.Compare(f.series[i].labels, f.series[j].labels) < 0 })
	f.sorted = len(f.series)
	f.selection = map[string][]*series{}
}

func (f *family) selected(matchers []*labels.Matcher) []*series {
	f.sort()
	var key strings.Builder
	for _, m := range matchers {
		key.WriteString(m.String())
		key.WriteByte(0)
	}
	if found, known := f.selection[key.String()]; known {
		return found
	}
	found := []*series{}
next:
	for _, s := range f.series {
		for _, m := range matchers {
			if !m.Matches(s.labels.Get(m.Name)) {
				continue next
			}
		}
		found = append(found, s)
	}
	f.selection[key.String()] = found
	return found
}

// History holds all samples, those of the recording and those that rules add, in memory. What rules add is seen late
// where it is first sent to a store, as vmalert does: it then waits for its moment.
type history struct {
	all      *family
	families map[string]*family
	known    map[uint64][]*series
	late     int64
	waiting  []result
}

type result struct {
	labels labels.Labels
	moment int64
	value  float64
}

// Reveal shows what was sent long enough before a moment.
func (h *history) reveal(now int64) {
	shown := 0
	for shown < len(h.waiting) && h.waiting[shown].moment+h.late <= now {
		each := h.waiting[shown]
		h.put(each.labels, each.moment, each.value)
		shown++
	}
	h.waiting = h.waiting[shown:]
}

func newHistory() *history {
	return &history{all: &family{}, families: map[string]*family{}, known: map[uint64][]*series{}}
}

func (h *history) get(l labels.Labels) *series {
	for _, s := range h.known[l.Hash()] {
		if labels.Equal(s.labels, l) {
			return s
		}
	}
	return nil
}

func (h *history) add(s *series) {
	name := s.labels.Get(labels.MetricName)
	if h.families[name] == nil {
		h.families[name] = &family{}
	}
	h.families[name].add(s)
	h.all.add(s)
	h.known[s.labels.Hash()] = append(h.known[s.labels.Hash()], s)
}

func (h *history) selected(matchers []*labels.Matcher) []*series {
	for i, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			f := h.families[m.Value]
			if f == nil {
				return nil
			}
			return f.selected(append(append([]*labels.Matcher{}, matchers[:i]...), matchers[i+1:]...))
		}
	}
	return h.all.selected(matchers)
}

// Reading, as the engine does it.

func (h *history) Querier(_ context.Context, from, to int64) (storage.Querier, error) {
	return querier{h, from, to}, nil
}

type querier struct {
	history  *history
	from, to int64
}

func (q querier) Select(_ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	from, to := q.from, q.to
	if hints != nil {
		from, to = hints.Start, hints.End
	}
	return &cut{series: q.history.selected(matchers), from: from, to: to}
}
func (q querier) LabelValues(string, ...*labels.Matcher) ([]string, storage.Warnings, error) {
	return nil, nil, errors.New("rules do not ask for label values")
}
func (q querier) LabelNames(...*labels.Matcher) ([]string, storage.Warnings, error) {
	return nil, nil, errors.New("rules do not ask for label names")
}
func (q querier) Close() error { return nil }

// A cut is the part of some series that lies within a span of time, both ends included.
type cut struct {
	series   []*series
	from, to int64
	now      window
}

func (c *cut) Next() bool {
	for len(c.series) > 0 {
		s := c.series[0]
		c.series = c.series[1:]
		first := s.index(c.from)
		if first < len(s.times) && s.times[first] <= c.to {
			c.now = window{s, first, first + (&series{times: s.times[first:]}).index(c.to+1)}
			return true
		}
	}
	return false
}
func (c *cut) At() storage.Series         { found := c.now; return &found }
func (c *cut) Err() error                 { return nil }
func (c *cut) Warnings() storage.Warnings { return nil }

// Index is that of the first sample which is not before a moment. Rules ask for the newest samples most of the time.
func (s *series) index(moment int64) int {
	n := len(s.times)
	if n == 0 || s.times[n-1] < moment {
		return n
	}
	return sort.Search(n, func(i int) bool { return s.times[i] >= moment })
}

type window struct {
	*series
	first, end int
}

func (w *window) Labels() labels.Labels { return w.labels }
func (w *window) Iterator(old chunkenc.Iterator) chunkenc.Iterator {
	if reused, ok := old.(*samples); ok {
		*reused = samples{*w, w.first - 1}
		return reused
	}
	return &samples{*w, w.first - 1}
}

type samples struct {
	window
	at int
}

func (s *samples) Next() chunkenc.ValueType { return s.moved(s.at + 1) }
func (s *samples) Seek(moment int64) chunkenc.ValueType {
	to := s.at
	if to < s.first {
		to = s.first
	}
	if to < s.end && s.times[to] < moment {
		to += sort.Search(s.end-to, func(i int) bool { return s.times[to+i] >= moment })
	}
	return s.moved(to)
}
func (s *samples) moved(to int) chunkenc.ValueType {
	if to >= s.end {
		s.at = s.end
		return chunkenc.ValNone
	}
	s.at = to
	return chunkenc.ValFloat
}
func (s *samples) At() (int64, float64)                                 { return s.times[s.at], s.values[s.at] }
func (s *samples) AtT() int64                                           { return s.times[s.at] }
func (s *samples) AtHistogram() (int64, *histogram.Histogram)           { panic("no histograms here") }
func (s *samples) AtFloatHistogram() (int64, *histogram.FloatHistogram) { panic("no histograms here") }
func (s *samples) Err() error                                           { return nil }

// Writing, as rule groups do it: every sample is there at once, as after a commit, unless results are late.

func (h *history) Appender(context.Context) storage.Appender { return appender{h} }

type appender struct{ *history }

func (a appender) Append(_ storage.SeriesRef, l labels.Labels, moment int64, value float64) (storage.SeriesRef, error) {
	if a.late > 0 {
		a.waiting = append(a.waiting, result{l.Copy(), moment, value})
		return 0, nil
	}
	return 0, a.put(l, moment, value)
}

func (h *history) put(l labels.Labels, moment int64, value float64) error {
	s := h.get(l)
	if s == nil {
		h.add(&series{l.Copy(), []int64{moment}, []float64{value}})
		return nil
	}
	if last := len(s.times) - 1; s.times[last] >= moment {
		if s.times[last] > moment {
			return storage.ErrOutOfOrderSample
		}
		if math.Float64bits(s.values[last]) != math.Float64bits(value) {
			return storage.ErrDuplicateSampleForTimestamp
		}
		return nil
	}
	s.times, s.values = append(s.times, moment), append(s.values, value)
	return nil
}
func (a appender) Commit() error   { return nil }
func (a appender) Rollback() error { return nil }
func (a appender) AppendExemplar(storage.SeriesRef, labels.Labels, exemplar.Exemplar) (storage.SeriesRef, error) {
	return 0, nil
}
func (a appender) AppendHistogram(
	storage.SeriesRef, labels.Labels, int64, *histogram.Histogram, *histogram.FloatHistogram,
) (storage.SeriesRef, error) {
	return 0, errors.New("a rule yields a histogram, which is not supported here")
}
func (a appender) UpdateMetadata(storage.SeriesRef, labels.Labels, metadata.Metadata) (storage.SeriesRef, error) {
	return 0, nil
}
