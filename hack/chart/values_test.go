package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6" // what Helm uses
	"go.yaml.in/yaml/v3"
)

const chart = "../../charts/leasehold"

func read(t *testing.T, path string) object {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(raw))
}

func parse(t *testing.T, text string) (o object) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// merge lays values over the chart's own, as Helm does.
func merge(under, over object) object {
	for key, value := range over {
		below, isMap := under[key].(object)
		if above, ok := value.(object); ok && isMap {
			value = merge(below, above)
		}
		under[key] = value
	}
	return under
}

// refusal is what Helm says about the values, or nothing.
func refusal(t *testing.T, values object) string {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(merge(read(t, filepath.Join(chart, "values.yaml")), values)); err != nil {
		return err.Error()
	}
	return ""
}

func TestSchemaTakesTheExamples(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(chart, "ci", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("%v, %v", examples, err)
	}
	for _, example := range examples {
		if problem := refusal(t, read(t, example)); problem != "" {
			t.Errorf("%s: %s", example, problem)
		}
	}
	if problem := refusal(t, nil); problem != "" {
		t.Errorf("the chart's own values: %s", problem)
	}
}

func TestSchemaRefusesARelayThatCannotWork(t *testing.T) {
	const good = "{enabled: true, databaseSecret: {name: db}, sink: {type: nats, url: 'nats://a:4222,nats://b:4222', subjectPrefix: shop.}}"
	if problem := refusal(t, object{"outboxRelay": parse(t, good)}); problem != "" {
		t.Fatal(problem)
	}
	tests := map[string]struct{ change, want string }{
		"no database":                   {"{databaseSecret: {name: ''}}", "at '/outboxRelay/databaseSecret/name': minLength"},
		"no name of a Secret":           {"{databaseSecret: {name: 'postgres://u:p@db/shop'}}", "at '/outboxRelay/databaseSecret/name'"},
		"no key":                        {"{databaseSecret: {key: ''}}", "at '/outboxRelay/databaseSecret/key'"},
		"a database URL in the values":  {"{databaseURL: 'postgres://u:p@db/shop'}", "additional properties 'databaseURL' not allowed"},
		"no sink":                       {"{sink: {type: ''}}", "at '/outboxRelay/sink/type': value must be one of 'http', 'nats'"},
		"a sink that throws away":       {"{sink: {type: 'null'}}", "at '/outboxRelay/sink/type': value must be one of '', 'http', 'nats'"},
		"no URL":                        {"{sink: {url: ''}}", "at '/outboxRelay/sink/url': '' does not match pattern '^(nats|tls)://"},
		"a URL of another sink":         {"{sink: {url: 'https://events.example.com'}}", "at '/outboxRelay/sink/url': 'https://events.example.com' does not match pattern '^(nats|tls)://"},
		"a password in the URL":         {"{sink: {url: 'nats://u:p@nats:4222'}}", "at '/outboxRelay/sink/url'"},
		"a password for the receiver":   {"{sink: {type: http, url: 'https://u:p@events.example.com', subjectPrefix: ''}}", "at '/outboxRelay/sink/url'"},
		"two URLs":                      {"{sink: {urlSecret: {name: s}}}", "at '/outboxRelay/sink/url': maxLength: got 27, want 0"},
		"a prefix without subjects":     {"{sink: {type: http, url: 'https://events.example.com'}}", "at '/outboxRelay/sink/subjectPrefix': maxLength"},
		"a prefix that is no subject":   {"{sink: {subjectPrefix: 'a b'}}", "at '/outboxRelay/sink/subjectPrefix': 'a b' does not match pattern"},
		"a setting that does not exist": {"{settings: {listen: ':1'}}", "at '/outboxRelay/settings': additional properties 'listen' not allowed"},
		"a batch that is too large":     {"{settings: {batch: 5000}}", "at '/outboxRelay/settings/batch': maximum: got 5,000, want 1,000"},
		"a time without a unit":         {"{settings: {poll: 5}}", "at '/outboxRelay/settings/poll': got number, want string"},
		"less than nothing":             {"{replicas: -1}", "at '/outboxRelay/replicas': minimum"},
		"a typing error":                {"{enable: true}", "additional properties 'enable' not allowed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			values := object{"outboxRelay": merge(parse(t, good), parse(t, tc.change))}
			if problem := refusal(t, values); !strings.Contains(problem, tc.want) {
				t.Errorf("want %q, got: %s", tc.want, problem)
			}
		})
	}
}
