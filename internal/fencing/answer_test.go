package fencing

import (
	"testing"

	"pgregory.net/rapid"
)

func TestClassify(t *testing.T) {
	const failedTest = `{"kind":"Status","status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}`
	const badField = `{"kind":"Status","reason":"Invalid","details":{"name":"x","causes":[{"reason":"FieldValueInvalid","message":"m","field":"spec.renewTime"}]},"code":422}`
	const policy = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"leases.coordination.k8s.io \"x\" is forbidden: ValidatingAdmissionPolicy 'theirs' denied request: failed to configure policy: not found",` +
		`"reason":"Invalid","details":{"name":"x","group":"coordination.k8s.io","kind":"leases","causes":[{"message":"ValidatingAdmissionPolicy 'theirs' denied request: failed to configure policy: not found"}]},"code":422}`
	tests := map[string]struct {
		code int
		body string
		want Answer
	}{
		"patched":                         {200, `{"kind":"Lease"}`, Accepted},
		"created":                         {201, ``, Accepted},
		"a test failed":                   {422, failedTest, Refused},
		"a field is wrong":                {422, badField, Invalid},
		"a policy gives no reason":        {422, policy, Unavailable},
		"one cause of two has a field":    {422, `{"details":{"causes":[{"message":"m"},{"field":"spec"}]}}`, Invalid},
		"causes that are none":            {422, `{"details":{"causes":["m"]}}`, Refused},
		"empty list of causes":            {422, `{"details":{"causes":[]}}`, Refused},
		"422 without a body":              {422, ``, Refused},
		"422 of something that is no API": {422, `<html>`, Refused},
		"the Lease is gone":               {404, `{"reason":"NotFound"}`, Refused},
		"a policy or role denies":         {403, `{"reason":"Forbidden","details":{"causes":[{"message":"m"}]}}`, Refused},
		"a policy finds it too large":     {413, `{"reason":"RequestEntityTooLarge"}`, Invalid},
		"a webhook gives no code":         {400, `{"message":"admission webhook \"theirs\" denied the request without explanation"}`, Unavailable},
		"unknown token":                   {401, `{"reason":"Unauthorized"}`, Unauthorized},
		"too many requests":               {429, ``, Unavailable},
		"conflict":                        {409, ``, Unavailable},
		"etcd's limit":                    {500, `etcdserver: request is too large`, Unavailable},
		"bad gateway":                     {502, ``, Unavailable},
		"unavailable":                     {503, ``, Unavailable},
		"timeout":                         {504, ``, Unavailable},
		"redirect":                        {302, ``, Unavailable},
		"no status at all":                {0, ``, Unavailable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Classify(tc.code, []byte(tc.body)); got != tc.want {
				t.Errorf("Classify(%d) = %s, want %s", tc.code, got, tc.want)
			}
		})
	}
}

// TestOnlyThreeCodesRefuse: whatever a proxy or a broken server says, only the answers of the protocol are final.
func TestOnlyThreeCodesRefuse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.IntRange(0, 999).Draw(t, "code")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		got := Classify(code, body)
		if final := code == 403 || code == 404 || code == 422; got == Refused && !final {
			t.Fatalf("Classify(%d) = %s", code, got)
		}
		if got == Accepted && code/100 != 2 {
			t.Fatalf("Classify(%d) = %s", code, got)
		}
	})
}
