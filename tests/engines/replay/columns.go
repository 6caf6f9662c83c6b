// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/prometheus/prometheus/model/labels"
)

// Samples come and go as one line of JSON that says which series follow and how long each is, and then for every
// series its times (int64, milliseconds) and its values (float64, stale markers among them), little endian.

type column struct {
	Labels  map[string]string `json:"labels"`
	Samples int               `json:"samples"`
}

type recording struct {
	Start  int64    `json:"start"` // first and last moment of evaluation, milliseconds since the epoch
	End    int64    `json:"end"`
	Series []column `json:"series"`
}

func read(from io.Reader) (*history, *recording, error) {
	in := bufio.NewReaderSize(from, 1<<20)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, nil, fmt.Errorf("samples: no header: %w", err)
	}
	var head recording
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, nil, fmt.Errorf("samples: header: %w", err)
	}
	h := newHistory()
	for _, each := range head.Series {
		s := &series{labels.FromMap(each.Labels), make([]int64, each.Samples), make([]float64, each.Samples)}
		words := make([]byte, 16*each.Samples)
		if _, err := io.ReadFull(in, words); err != nil {
			return nil, nil, fmt.Errorf("samples: %s: %w", s.labels, err)
		}
		for i := range s.times {
			s.times[i] = int64(binary.LittleEndian.Uint64(words[8*i:]))
			s.values[i] = math.Float64frombits(binary.LittleEndian.Uint64(words[8*(each.Samples+i):]))
		}
		if h.get(s.labels) != nil {
			return nil, nil, fmt.Errorf("samples: %s: twice", s.labels)
		}
		h.add(s)
	}
	return h, &head, nil
}

func write(to io.Writer, head map[string]interface{}, kept []*series) error {
	columns := make([]column, len(kept))
	for i, s := range kept {
		columns[i] = column{s.labels.Map(), len(s.times)}
	}
	head["series"] = columns
	out := bufio.NewWriterSize(to, 1<<20)
	if err := json.NewEncoder(out).Encode(head); err != nil { // ends with a newline
		return err
	}
	for _, s := range kept {
		if err := binary.Write(out, binary.LittleEndian, s.times); err != nil {
			return err
		}
		if err := binary.Write(out, binary.LittleEndian, s.values); err != nil {
			return err
		}
	}
	return out.Flush()
}
