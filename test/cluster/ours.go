package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// System is the namespace in which Leasehold is installed.
const System = "leasehold-system"

// isLeaseName is how the operator names Leases.
var isLeaseName = regexp.MustCompile(`^lh-([0-9a-f]{16}|key-[0-9a-f]{32})$`)

// Ours are all objects of the cluster that Leasehold installed, made or was given, by their kinds, names, labels, annotations and
// owners, as "resource.group namespace/name". Events are left out: they go by themselves.
func (c *Cluster) Ours(ctx context.Context) ([]string, error) {
	kinds, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	lists, err := kinds.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("list the kinds of the API: %w", err)
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists))
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	var ours []string
	for resource := range resources {
		if resource.Resource == "events" || resource.Resource == "componentstatuses" {
			continue
		}
		all, err := objects.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
		for i := range all.Items {
			if isOurs(resource, &all.Items[i].ObjectMeta) {
				ours = append(ours, fmt.Sprintf("%s %s/%s", resource.GroupResource(), all.Items[i].Namespace, all.Items[i].Name))
			}
		}
	}
	slices.Sort(ours)
	return ours, nil
}

func isOurs(resource schema.GroupVersionResource, o *metav1.ObjectMeta) bool {
	isOfEveryNamespace := o.Name == "kube-root-ca.crt" || o.Name == "default" && resource.Resource == "serviceaccounts"
	return resource.Group == "leasehold.io" || strings.Contains(o.Name, "leasehold") || isLeaseName.MatchString(o.Name) ||
		o.Namespace == System && !isOfEveryNamespace || hasOurs(o.Labels) || hasOurs(o.Annotations) ||
		slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return strings.HasPrefix(r.APIVersion, "leasehold.io/") })
}

// hasOurs reports whether labels or annotations are about Leasehold. A value may mention it and be somebody else's.
func hasOurs(pairs map[string]string) bool {
	for key, value := range pairs {
		if strings.HasPrefix(key, "leasehold.io/") || value == "leasehold" {
			return true
		}
	}
	return false
}
