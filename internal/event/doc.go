// Package event lets readers follow the mesh's feed: it replays from the table
// of events and then goes on with what is committed.
//
// The hub carries no events, only the news that there are some. A slow reader
// therefore holds nobody up and loses nothing: it reads the table at its own
// speed. The package knows no domain and no database.
//
// A Hub is safe for concurrent use.
package event
