package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

func (c *Cluster) startControlPlane(ctx context.Context) error {
	if err := c.start(etcd); err != nil {
		return err
	}
	err := c.await(ctx, "etcd", etcd, func(ctx context.Context) error {
		return insecureClient().get(ctx, etcdClient+"/health", nil)
	})
	if err != nil {
		return err
	}
	if err := c.start(apiserver); err != nil {
		return err
	}
	if err := c.awaitAPIServer(ctx); err != nil {
		return err
	}
	for _, name := range []string{controllerManager, scheduler} {
		if err := c.start(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) awaitAPIServer(ctx context.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	return c.await(ctx, "the API server", apiserver, func(ctx context.Context) error {
		return api.get(ctx, apiServer+"/readyz", nil)
	})
}

func (c *Cluster) awaitContainerd(ctx context.Context, n Node) error {
	return c.await(ctx, "containerd of "+n.Name, n.containerd(), func(ctx context.Context) error {
		_, err := ctr(ctx, n, "version")
		return err
	})
}

// awaitNodes waits for everything that the first Pod needs.
func (c *Cluster) awaitNodes(ctx context.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	health := insecureClient()
	g, ctx := errgroup.WithContext(ctx)
	wait := func(what, name string, check func(context.Context) error) {
		g.Go(func() error { return c.await(ctx, what, name, check) })
	}
	for _, n := range c.Nodes {
		wait("node "+n.Name+" to be Ready", n.kubelet(), func(ctx context.Context) error { return api.nodeReady(ctx, n) })
		wait("kube-proxy of "+n.Name, n.kubeProxy(), func(ctx context.Context) error {
			return health.get(ctx, fmt.Sprintf("http://%s:10256/healthz", n.Address()), nil)
		})
	}
	wait("the scheduler", scheduler, func(ctx context.Context) error {
		return health.get(ctx, "https://"+hostAddress+":10259/healthz", nil)
	})
	wait("the default service account", controllerManager, func(ctx context.Context) error {
		return api.get(ctx, apiServer+"/api/v1/namespaces/default/serviceaccounts/default", nil)
	})
	wait("the cluster's authority in namespace default", controllerManager, func(ctx context.Context) error {
		return api.get(ctx, apiServer+"/api/v1/namespaces/default/configmaps/kube-root-ca.crt", nil)
	})
	return g.Wait()
}
