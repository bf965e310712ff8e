package app

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/parley-mesh/parley/internal/certs"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// openCerts reads the files of tls, where there are any.
func (a *App) openCerts() (err error) {
	c := a.cfg.TLS
	if c.Cert == "" {
		return nil
	}
	o := certs.Options{
		Cert: c.Cert, Key: c.Key, Require: c.ClientAuth == config.ClientAuthRequire,
		Every: c.Reload, Log: a.log, Now: a.opts.Now,
		// The directory is made later, and before anything is served.
		Changed: func() { a.identity.Invalidate() },
		Refused: func(remote string, err error) {
			a.identity.RefuseCertificate(remote)
			a.log.Debug("client certificate refused", "remote", remote, "err", err)
		},
	}
	if c.ClientAuth != config.ClientAuthNone {
		o.ClientCA, o.CRL, o.Lenient = c.ClientCA, c.CRL, c.CRLCheck == config.CRLLenient
	}
	if a.certs, err = certs.Open(o); err != nil {
		return parley.E("app.tls", parley.Invalid, "tls", fmt.Sprintf("the files of tls cannot be used: %v", err), err)
	}
	a.listeners.tls = a.certs.Config()
	return nil
}

// clientCerts judges client certificates; nil where none are taken.
func (a *App) clientCerts() identity.Certificates {
	if a.certs == nil || a.cfg.TLS.ClientCA == "" || a.cfg.TLS.ClientAuth == config.ClientAuthNone {
		return nil
	}
	return a.certs
}

// followCerts takes up changes of the files of tls until ctx ends; SIGHUP asks
// for it at once.
func (a *App) followCerts(ctx context.Context) error {
	if a.certs == nil {
		return nil
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	return a.certs.Run(ctx, reload)
}
