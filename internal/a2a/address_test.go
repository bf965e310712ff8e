package a2a

import "testing"

func TestParseGRPCAddress(t *testing.T) {
	for text, want := range map[string]string{
		"agents.example.com:443": "https://agents.example.com:443", "Agents.example:1": "https://agents.example:1", "[::1]:50051": "https://[::1]:50051",
		"grpc://a:1": "https://a:1", "grpcs://a:1": "https://a:1", "dns:///a:1": "https://a:1", "https://a": "https://a:443", "http://a/": "http://a:80", "http://a:7": "http://a:7",
		"": "", "a": "", "a:": "", ":1": "", "a:0": "", "a:65536": "", "a:b": "", "a:1/x": "", "a:1?x": "", "me@a:1": "", "a b:1": "", "ftp://a:1": "", "é:1": "",
		"https://a:": "", "https://a/b": "", "a:1:2": "", "[::1]": "", "a:1#x": "", "grpc://a": "", "a\\b:1": "",
	} {
		got, err := ParseGRPCAddress(text)
		if (err != nil) != (want == "") || err == nil && got.URL() != want {
			t.Errorf("%q: %s, %v, want %q", text, got.URL(), err, want)
		}
	}
}
