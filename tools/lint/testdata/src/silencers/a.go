package silencers

//nolint:errorlint a reason
var a int

//nolint:errorlint,bodyclose // a reason
var b int

/* want `write //nolint:NAME reason` */ //nolint:errorlint
var c int

/* want `write //nolint:NAME reason` */ //nolint
var d int

/* want `write //nolint:NAME reason` */ //nolint because
var e int
