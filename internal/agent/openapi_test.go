package agent

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/google/go-cmp/cmp"
)

func readDocument(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../../docs/agent-socket.openapi.yaml")
	must(t, err)
	must(t, doc.Validate(t.Context()))
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("OpenAPI %s", doc.OpenAPI)
	}
	return doc
}

// TestTheDocumentHasTheRoutes: those that the socket serves, no more and no less.
func TestTheDocumentHasTheRoutes(t *testing.T) {
	served, documented := map[string]bool{}, map[string]bool{}
	for path, route := range routes {
		served[route.Method+" "+path] = true
	}
	for path, item := range readDocument(t).Paths.Map() {
		for method := range item.Operations() {
			documented[method+" "+path] = true
		}
	}
	if diff := cmp.Diff(served, documented); diff != "" {
		t.Errorf("-served +documented:\n%s", diff)
	}
}

// exchanges are requests, and the status that each gets. isWanted says what the document is to think of the request; what answers,
// it has to know.
var exchanges = map[string]struct {
	method, path, body string
	code               int
	isWanted           bool
}{
	"the task":                 {"GET", "/v1/task", "", 200, true},
	"not told to stop":         {"GET", "/v1/cancel?waitSeconds=0", "", 204, true},
	"waits for ever":           {"GET", "/v1/cancel?waitSeconds=301", "", 400, false},
	"waits a while":            {"GET", "/v1/cancel?waitSeconds=soon", "", 400, false},
	"heartbeat":                {"POST", "/v1/heartbeat", "{}", 204, true},
	"heartbeat of nothing":     {"POST", "/v1/heartbeat", "", 204, true},
	"heartbeat that says more": {"POST", "/v1/heartbeat", `{"bpm":60}`, 400, false},
	"progress":                 {"POST", "/v1/progress", `{"current":1,"total":2,"message":"ü"}`, 204, true},
	"progress of 0":            {"POST", "/v1/progress", `{"current":0}`, 204, true},
	"progress of nothing":      {"POST", "/v1/progress", `{}`, 422, false},
	"progress backwards":       {"POST", "/v1/progress", `{"current":-1}`, 422, false},
	"progress of a half":       {"POST", "/v1/progress", `{"current":0.5}`, 400, false},
	"progress in words":        {"POST", "/v1/progress", `{"current":1,"message":"` + strings.Repeat("x", 257) + `"}`, 422, true}, // counted in bytes
	"checkpoint":               {"POST", "/v1/checkpoint", `{"checkpoint":"row 1"}`, 204, true},
	"checkpoint taken back":    {"POST", "/v1/checkpoint", `{"checkpoint":""}`, 204, true},
	"checkpoint of nothing":    {"POST", "/v1/checkpoint", `{}`, 422, false},
	"checkpoint too large":     {"POST", "/v1/checkpoint", `{"checkpoint":"` + strings.Repeat("x", 1025) + `"}`, 413, false},
	"result":                   {"POST", "/v1/result", `{"result":"r"}`, 204, true},
	"result of nothing":        {"POST", "/v1/result", `{}`, 422, false},
	"result too large":         {"POST", "/v1/result", `{"result":"` + strings.Repeat("x", 32769) + `"}`, 413, false},
	"result that is no result": {"POST", "/v1/result", `{"result":"` + strings.Repeat("x", 256<<10) + `"}`, 413, false},
	"reference":                {"POST", "/v1/result", `{"resultRef":` + ref + `}`, 204, true},
	"result and reference":     {"POST", "/v1/result", `{"result":"r","resultRef":` + ref + `}`, 422, false},
	"reference to no size":     {"POST", "/v1/result", `{"resultRef":` + strings.Replace(ref, `,"sizeBytes":7`, "", 1) + `}`, 422, false},
	"reference to no digest":   {"POST", "/v1/result", `{"resultRef":` + strings.Replace(ref, "sha256", "sha1", 1) + `}`, 422, false},
	"failure":                  {"POST", "/v1/fail", `{"retryable":true,"effect":"None","reason":"Quota","message":"m","retryAfterSeconds":86400}`, 204, true},
	"failure without a word":   {"POST", "/v1/fail", ``, 204, true},
	"failure for no word":      {"POST", "/v1/fail", `{"reason":"two words"}`, 422, false},
	"failure with an effect":   {"POST", "/v1/fail", `{"effect":"Some"}`, 422, false},
	"failure for too long":     {"POST", "/v1/fail", `{"retryAfterSeconds":86401}`, 422, false},
	"failure from before":      {"POST", "/v1/fail", `{"retryAfterSeconds":-1}`, 422, false},
	"never, and then":          {"POST", "/v1/fail", `{"retryable":false,"retryAfterSeconds":1}`, 422, true}, // the document says so in words
	"failure in many words":    {"POST", "/v1/fail", `{"message":"` + strings.Repeat("x", 1025) + `"}`, 422, true},
	"no JSON":                  {"POST", "/v1/fail", `reason=x`, 400, false},
	"a list":                   {"POST", "/v1/fail", `[]`, 400, false},
	"two objects":              {"POST", "/v1/progress", `{"current":1}{"current":2}`, 400, true},           // the library reads the first
	"no text":                  {"POST", "/v1/progress", "{\"current\":1,\"message\":\"\xff\"}", 400, true}, // the library replaces it
}

// TestTheDocumentIsTrue has the socket answer, and the document judge: it wants the requests that are taken, does not want those that
// break its rules, and knows every answer.
func TestTheDocumentIsTrue(t *testing.T) {
	t.Parallel()
	doc := readDocument(t)
	f := newTalker(t, patient, func(f *talker) int {
		for name, x := range exchanges {
			request, err := http.NewRequest(x.method, "http://agent"+x.path, strings.NewReader(x.body))
			must(t, err)
			request.Header.Set("Content-Type", "application/json")
			response, err := f.client.Do(request)
			must(t, err)
			answer, err := io.ReadAll(response.Body)
			must(t, err)
			if response.StatusCode != x.code {
				t.Errorf("%s: %d %s", name, response.StatusCode, answer)
			}
			input := judged(doc, x.method, x.path, x.body)
			if err := openapi3filter.ValidateRequest(context.Background(), input); (err == nil) != x.isWanted {
				t.Errorf("%s: the document says of the request: %v", name, err)
			}
			err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{RequestValidationInput: input,
				Status: response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(answer)),
				Options: &openapi3filter.Options{IncludeResponseStatus: true}})
			if err != nil {
				t.Errorf("%s: the document says of the answer %s: %v", name, answer, err)
			}
		}
		return 0
	})
	f.run()
}

func judged(doc *openapi3.T, method, path, body string) *openapi3filter.RequestValidationInput {
	request, err := http.NewRequest(method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	item := doc.Paths.Value(request.URL.Path)
	return &openapi3filter.RequestValidationInput{Request: request, QueryParams: request.URL.Query(),
		Route: &routers.Route{Spec: doc, Path: request.URL.Path, PathItem: item, Method: method, Operation: item.GetOperation(method)}}
}

func TestOtherPathsAndMethodsAreRefused(t *testing.T) {
	t.Parallel()
	f := newTalker(t, patient, func(f *talker) int {
		for call, want := range map[string]int{"GET /": 404, "GET /v1/heartbeat": 405, "POST /v1/task": 405, "PUT /v1/result": 405, "POST /v1/../v1/fail": 404, "POST /v2/fail": 404} {
			method, path, _ := strings.Cut(call, " ")
			if code, body := f.say(method, path, ""); code != want || !strings.Contains(body, `"title":`) {
				t.Errorf("%s: %d %s", call, code, body)
			}
		}
		return 0
	})
	f.run()
}
