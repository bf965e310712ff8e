package a

import (
	"errors"
	"io"
)

var errOwn = errors.New("own")

func compare(err error) bool {
	if err == errOwn { // want `comparing with == will fail on wrapped errors.*\(errorlint\)`
		return true
	}
	if err == io.EOF || io.EOF != err {
		return true
	}
	if err == errOwn { //nolint:errorlint the line itself
		return true
	}
	//nolint:errorlint the line below
	if err == errOwn {
		return true
	}
	return err == errOwn //nolint:other not this analyzer // want `comparing with ==`
}
