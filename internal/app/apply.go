package app

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/apply"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/limit"
	"github.com/parley-mesh/parley/internal/parley"
)

// limitsRetry is the pause before limits that other replicas may have set are
// read again after the store failed.
const limitsRetry = time.Second

// limitsInForce are what the running mesh has instead of its configuration.
type limitsInForce struct {
	changed chan struct{} // holds a token where others may have set some

	mu     sync.Mutex
	values map[string]string // guarded by mu
}

// limitsMayDiffer has the limits read again. It returns at once.
func (a *App) limitsMayDiffer() {
	select {
	case a.limits.changed <- struct{}{}:
	default: // a look is due already, and will see this change too
	}
}

// applyEngine makes the mesh hold what documents declare.
func (a *App) applyEngine() *apply.Engine {
	return apply.New(apply.Options{
		Store: a.store, Begin: func() apply.Batch { return a.store.Batch() }, Identity: a.identity, Registry: a.registry,
		Limits: a, Environment: a.cfg.Environment, Log: a.log, Now: a.opts.Now,
	})
}

// gatewayLimits are the gateway's part of the limits.
func gatewayLimits(l config.Limits) gateway.Limits {
	return gateway.Limits{
		CallDeadline: l.CallDeadline, Unary: l.UnaryTimeout, FirstByte: l.FirstByteTimeout,
		Streams: l.Streams, StreamsPerPrincipal: l.StreamsPerPrincipal, StreamsDetached: l.StreamsDetached,
		StreamBuffer: int(l.StreamBuffer), StreamRecovery: l.StreamRecovery,
		PerPrincipal: limit.Rate{PerSecond: l.RatePerPrincipal, Burst: l.BurstPerPrincipal},
		PerAddress:   limit.Rate{PerSecond: l.RatePerAddress, Burst: l.BurstPerAddress},
		Snapshot:     int(l.TaskSnapshot), ListRefresh: l.ListRefresh, ListRefreshTimeout: l.ListRefreshTimeout,
	}
}

// overridden names where a limit of the running mesh comes from.
const overridden = "parley apply"

// CheckLimits implements apply.Limits.
func (a *App) CheckLimits(values map[string]string) (wrong []parley.Field) {
	_, err := a.cfg.Override(values, overridden)
	for _, p := range config.Problems(err) {
		wrong = append(wrong, parley.Field{Path: p.Key, Problem: p.Problem})
	}
	return wrong
}

// ConfiguredLimit implements apply.Limits.
func (a *App) ConfiguredLimit(key string) string { return a.cfg.Value(key) }

// ReloadLimits implements apply.Limits: it puts in force what is stored. What
// no longer fits the configuration is told of and left out as a whole, so that
// a mesh starts whatever is stored.
func (a *App) ReloadLimits(ctx context.Context) error {
	a.limits.mu.Lock()
	defer a.limits.mu.Unlock()
	values, _, _, err := a.store.LimitOverrides(ctx)
	if err != nil {
		return fmt.Errorf("read the limits that were set: %w", err)
	}
	if maps.Equal(values, a.limits.values) {
		return nil
	}
	a.limits.values = values
	next, err := a.cfg.Override(values, overridden)
	if err != nil {
		a.log.Error("limits that were set do not fit the configuration: the configured ones are in force", "err", err)
		next = a.cfg
	}
	a.gateway.SetLimits(gatewayLimits(next.Limits))
	a.log.Info("limits are in force that differ from the configuration", "values", values)
	return nil
}

// followLimits takes over what other replicas set, until ctx ends.
func (a *App) followLimits(ctx context.Context) error {
	retry := time.NewTimer(limitsRetry)
	defer retry.Stop()
	for failing := false; ; {
		retry.Stop()
		err := a.ReloadLimits(ctx)
		if err != nil && ctx.Err() == nil {
			if !failing {
				a.log.Warn("limits that other replicas may have set are not known", "err", err)
			}
			retry.Reset(limitsRetry)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.limits.changed:
		case <-retry.C:
		}
	}
}
