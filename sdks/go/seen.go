package ringtrue

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// SeenStore remembers the events that were processed, by their ids. Callbacks arrive at least once, so a receiver needs
// one. [NewMemorySeenStore] is enough for one process. For several, use your database:
//
//	func (s *store) Seen(ctx context.Context, id string) (seen bool, err error) {
//		err = s.db.QueryRowContext(ctx, `select exists (select 1 from callbacks where id = $1)`, id).Scan(&seen)
//		return seen, err
//	}
//
//	func (s *store) MarkSeen(ctx context.Context, id string) error {
//		_, err := s.db.ExecContext(ctx, `insert into callbacks (id) values ($1) on conflict do nothing`, id)
//		return err
//	}
//
// With Redis, Seen is EXISTS and MarkSeen is SET with EX 86400.
type SeenStore interface {
	// Seen reports whether an event was processed.
	Seen(ctx context.Context, id string) (bool, error)
	// MarkSeen remembers an event that was processed.
	MarkSeen(ctx context.Context, id string) error
}

// Once wraps the function of a [CallbackHandler], so that it gets each event once. An event counts as processed when
// the function has returned nil: after an error, it gets the next delivery. In one process, a delivery waits while
// another one of the same event is being processed. Several processes that share a store can process an event at the
// same time: make the effect idempotent, for example by a unique key.
func Once(store SeenStore, process func(context.Context, *Event) error) func(context.Context, *Event) error {
	var running keyedLock
	return func(ctx context.Context, event *Event) error {
		if err := running.lock(ctx, event.ID); err != nil {
			return err
		}
		defer running.unlock(event.ID)
		seen, err := store.Seen(ctx, event.ID)
		if err != nil || seen {
			return err
		}
		if err := process(ctx, event); err != nil {
			return err
		}
		return store.MarkSeen(ctx, event.ID)
	}
}

// keyedLock is a lock for each key. The zero value is ready.
type keyedLock struct {
	mutex sync.Mutex
	held  map[string]chan struct{}
}

func (l *keyedLock) lock(ctx context.Context, key string) error {
	for {
		l.mutex.Lock()
		released, isHeld := l.held[key]
		if !isHeld {
			if l.held == nil {
				l.held = map[string]chan struct{}{}
			}
			l.held[key] = make(chan struct{})
			l.mutex.Unlock()
			return nil
		}
		l.mutex.Unlock()
		select {
		case <-released:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *keyedLock) unlock(key string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	close(l.held[key])
	delete(l.held, key)
}

// MemorySeenStore is a [SeenStore] in memory. It forgets events after a time, and the oldest ones when it is full.
type MemorySeenStore struct {
	maxEntries int
	life       time.Duration
	now        func() time.Time

	mutex sync.Mutex
	// order has the entries, oldest first.
	order   *list.List
	entries map[string]*list.Element
}

type seenEntry struct {
	id string
	at time.Time
}

// NewMemorySeenStore creates a store for at most maxEntries events, each for the time life. Deliveries of one callback
// are spread over about four minutes, or more if the project configures longer retries.
func NewMemorySeenStore(maxEntries int, life time.Duration) *MemorySeenStore {
	return &MemorySeenStore{
		maxEntries: maxEntries, life: life, now: time.Now, order: list.New(), entries: map[string]*list.Element{},
	}
}

// Seen implements [SeenStore].
func (s *MemorySeenStore) Seen(_ context.Context, id string) (bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.evict(s.now())
	_, isSeen := s.entries[id]
	return isSeen, nil
}

// MarkSeen implements [SeenStore].
func (s *MemorySeenStore) MarkSeen(_ context.Context, id string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := s.now()
	if element, isSeen := s.entries[id]; isSeen {
		s.order.Remove(element)
	}
	s.entries[id] = s.order.PushBack(seenEntry{id, now})
	s.evict(now)
	return nil
}

// Len returns the number of events in the store.
func (s *MemorySeenStore) Len() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.entries)
}

// evict removes entries that are too old or too many.
func (s *MemorySeenStore) evict(now time.Time) {
	for oldest := s.order.Front(); oldest != nil; oldest = s.order.Front() {
		entry := oldest.Value.(seenEntry)
		if now.Sub(entry.at) < s.life && len(s.entries) <= s.maxEntries {
			return
		}
		s.order.Remove(oldest)
		delete(s.entries, entry.id)
	}
}
