// Runs queries with trino-go-client: query URL FILE
// FILE has one query a line, a word (run) before it. Prints a JSON line a query, as Query.java does, with "ids": those that
// the client shows its user, each once.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinodb/trino-go-client/trino"
)

type outcome struct {
	Index  int      `json:"index"`
	Ids    []string `json:"ids"`
	Rows   int      `json:"rows"`
	Digest string   `json:"digest"`
	Error  *string  `json:"error"`
}

type progress struct {
	lock sync.Mutex
	ids  []string
}

func (p *progress) Update(info trino.QueryProgressInfo) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if !slices.Contains(p.ids, info.QueryId) {
		p.ids = append(p.ids, info.QueryId)
	}
}

func run(db *sql.DB, index int, text string) (result outcome) {
	seen := &progress{ids: []string{}}
	var lines []string
	fail := func(err error) {
		message := err.Error()
		result.Error = &message
	}
	defer func() {
		slices.Sort(lines)
		result.Index, result.Rows = index, len(lines)
		result.Digest = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, "\n"))))
		seen.lock.Lock()
		defer seen.lock.Unlock()
		result.Ids = seen.ids
	}()
	rows, err := db.QueryContext(context.Background(), text,
		sql.Named("X-Trino-Progress-Callback", seen),
		sql.Named("X-Trino-Progress-Callback-Period", time.Millisecond))
	if err != nil {
		fail(err)
		return
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		fail(err)
		return
	}
	for rows.Next() {
		values := make([]any, len(columns))
		pointers := make([]any, len(columns))
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := rows.Scan(pointers...); err != nil {
			fail(err)
			return
		}
		lines = append(lines, fmt.Sprint(values...))
	}
	if err := rows.Err(); err != nil {
		fail(err)
	}
	return
}

func main() {
	dsn := strings.Replace(os.Args[1], "http://", "http://go@", 1) + "?source=suite-go"
	db, err := sql.Open("trino", dsn)
	if err != nil {
		panic(err)
	}
	file, err := os.Open(os.Args[2])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	for index := 0; lines.Scan(); index++ {
		_, text, _ := strings.Cut(lines.Text(), " ")
		line, err := json.Marshal(run(db, index, text))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}
