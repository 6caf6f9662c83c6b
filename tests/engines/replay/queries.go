// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

// Rules hand their expression to the engine as text, written anew and parsed anew at every evaluation, which takes as
// long as the evaluation itself where jobs are small. Here both are done once.

// A source reads rule files, whose expressions stay as they are written there.
type source struct{ rules.FileLoader }

func (s source) Parse(text string) (parser.Expr, error) {
	expr, err := s.FileLoader.Parse(text)
	if err != nil {
		return nil, err
	}
	return written{expr, text}, nil
}

type written struct {
	parser.Expr
	text string
}

func (w written) String() string { return w.text }

// A query is executed again at another moment once what it read at the last one is forgotten.
type query struct {
	promql.Query
	statement *parser.EvalStmt
	read      []*parser.VectorSelector
	consumed  bool // the engine puts what a subquery yields in its place
}

func (q *query) at(ctx context.Context, moment time.Time) (promql.Vector, error) {
	q.statement.Start, q.statement.End = moment, moment
	for _, each := range q.read {
		each.Series, each.UnexpandedSeriesSet = nil, nil
	}
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	switch value := result.Value.(type) {
	case promql.Vector:
		return value, nil
	case promql.Scalar:
		return promql.Vector{{Point: promql.Point{T: value.T, V: value.V}, Metric: labels.EmptyLabels()}}, nil
	default:
		return nil, fmt.Errorf("a rule yields a %s, and not a vector or scalar", value.Type())
	}
}

// Asks evaluates expressions as rules.EngineQueryFunc does, and keeps each of them parsed.
func asks(engine *promql.Engine, h *history) rules.QueryFunc {
	known := map[string]*query{}
	return func(ctx context.Context, text string, moment time.Time) (promql.Vector, error) {
		if q := known[text]; q != nil {
			return q.at(ctx, moment)
		}
		made, err := engine.NewInstantQuery(h, nil, text, moment)
		if err != nil {
			return nil, err
		}
		q := prepared(made)
		if !q.consumed {
			known[text] = q
		}
		return q.at(ctx, moment)
	}
}

func prepared(made promql.Query) *query {
	q := &query{Query: made, statement: made.Statement().(*parser.EvalStmt)}
	parser.Inspect(q.statement.Expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			q.read = append(q.read, n)
		case *parser.SubqueryExpr:
			q.consumed = true
		case *parser.AggregateExpr:
			// count_values appends its label in place, and sorts.
			n.Grouping = n.Grouping[:len(n.Grouping):len(n.Grouping)]
		}
		return nil
	})
	return q
}
