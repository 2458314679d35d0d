package main

import (
	"strings"
	"testing"
)

const crd = `spec:
  versions:
    - schema:
        openAPIV3Schema:
          description: kept, ours
          properties:
            template:
              description: kept, ours too
              properties:
                metadata:
                  description: gone
                  properties:
                    name:
                      type: string
                    labels:
                      additionalProperties:
                        description: gone
                        type: string
                      type: object
                  type: object
                spec:
                  description: gone
                  properties:
                    containers:
                      items:
                        description: gone
                        properties:
                          description:
                            description: gone
                            type: string
                          name:
                            type: string
                          terminationGracePeriodSeconds:
                            maximum: 9007199254740993
                        type: object
                      type: array
                  type: object
              type: object
`

func TestTrimStripsBelowTheTemplateOnly(t *testing.T) {
	out, err := trim([]byte(crd))
	if err != nil {
		t.Fatal(err)
	}
	got := string(out)
	if strings.Contains(got, "gone") {
		t.Errorf("descriptions below the template are still there:\n%s", got)
	}
	if strings.Contains(got, "                    name:\n                      type: string\n") {
		t.Errorf("a name that nobody heeds is taken:\n%s", got)
	}
	for _, want := range []string{
		"description: kept, ours\n",
		"description: kept, ours too\n",
		"                          description:\n                            type: string\n", // a property of that name
		"maximum: 9007199254740993\n",
		"                          name:\n                            maxLength: 63\n                            type: string\n",
		"                        type: object\n                      maxItems: 64\n                      type: array\n",
		"labels:\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in:\n%s", want, got)
		}
	}
}

func TestTrimTwiceChangesNothing(t *testing.T) {
	once, err := trim([]byte(crd))
	if err != nil {
		t.Fatal(err)
	}
	twice, err := trim(once)
	if err != nil {
		t.Fatal(err)
	}
	if string(once) != string(twice) {
		t.Errorf("not idempotent:\n%s\n---\n%s", once, twice)
	}
}

func TestTrimRefusesWhatClientSideApplyCannotKeep(t *testing.T) {
	big := "description: " + strings.Repeat("x", maxJSON) + "\n"
	if _, err := trim([]byte(big)); err == nil || !strings.Contains(err.Error(), "262144") {
		t.Errorf("want an error that names the limit, got %v", err)
	}
}
