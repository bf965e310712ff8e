package app

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
)

// notifySocket names the service manager's socket, by the protocol that
// sd_notify(3) documents: one datagram of NAME=VALUE lines.
const notifySocket = "NOTIFY_SOCKET"

// notifyManager tells the service manager, where one listens, what the process
// does: READY=1 once it serves, STOPPING=1 once it stops.
func notifyManager(ctx context.Context, state string) (err error) {
	name := os.Getenv(notifySocket)
	switch {
	case name == "":
		return nil
	case strings.HasPrefix(name, "@"): // in the abstract namespace
		name = "\x00" + name[1:]
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixgram", name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	_, err = conn.Write([]byte(state))
	return err
}

// tellManager is notifyManager where a failure keeps nothing from going on: the
// manager notices by itself that it was told nothing.
func (a *App) tellManager(ctx context.Context, state string) {
	if err := notifyManager(context.WithoutCancel(ctx), state); err != nil {
		a.log.Warn("the service manager cannot be told", "state", state, "err", err)
	}
}
