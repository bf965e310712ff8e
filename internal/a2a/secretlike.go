package a2a

// SecretLike says what kind of secret a text seems to hold ("a bearer token"),
// and "" for none. It judges as ParseCard does, for texts beside cards, such as
// the address an agent is registered with. The answer never repeats the text.
func SecretLike(text string) string { return secretLike(text) }
