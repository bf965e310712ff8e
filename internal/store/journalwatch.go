package store

import (
	"context"

	"github.com/parley-mesh/parley/internal/call"
)

// Watch tells when events may have been added to a task's journal, by this
// process or another one of the same store. wake holds one token; it is only a
// hint to look, and there is none for what was added before. stop ends it.
func (db *DB) Watch(key call.TaskKey) (wake <-chan struct{}, stop func()) {
	j, ch := db.journals, make(chan struct{}, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.watchers[key] == nil {
		j.watchers[key] = map[chan struct{}]struct{}{}
	}
	j.watchers[key][ch] = struct{}{}
	return ch, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if delete(j.watchers[key], ch); len(j.watchers[key]) == 0 {
			delete(j.watchers, key)
			delete(j.seen, key)
		}
	}
}

// wake tells those who wait for news of a task.
func (j *journals) wake(key call.TaskKey) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tell(key)
}

// tell is wake for a caller that holds mu.
func (j *journals) tell(key call.TaskKey) {
	for ch := range j.watchers[key] {
		select {
		case ch <- struct{}{}:
		default: // told already
		}
	}
}

// watched gives the tasks that somebody waits for.
func (j *journals) watched() (agents, instances, tasks []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key := range j.watchers {
		agents, instances, tasks = append(agents, string(key.Agent)), append(instances, key.Instance), append(tasks, key.ID)
	}
	return agents, instances, tasks
}

// found takes up where a journal ends and tells of news.
func (j *journals) found(key call.TaskKey, last int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.watchers[key] != nil && j.seen[key] != last {
		j.seen[key] = last
		j.tell(key)
	}
}

// lookAtJournals finds out which of the journals that somebody waits for have
// grown at another replica.
func (p *postgres) lookAtJournals(ctx context.Context) error {
	agents, instances, tasks := p.db.journals.watched()
	if len(tasks) == 0 {
		return nil
	}
	rows, err := p.pulse.conn.Query(ctx, `SELECT j.agent, j.instance, j.task, j.last_seq
		FROM unnest($1::text[], $2::text[], $3::text[]) AS w (agent, instance, task)
		JOIN journals j ON j.agent = w.agent AND j.instance = w.instance AND j.task = w.task`, agents, instances, tasks)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key call.TaskKey
		var last int64
		if err := rows.Scan(&key.Agent, &key.Instance, &key.ID, &last); err != nil {
			return err
		}
		p.db.journals.found(key, last)
	}
	return rows.Err()
}
