// Kubernetes' API server with an etcd inside, for a test: one process, its data in one folder.
package main

import (
	"log"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// Arguments: the folder and the port of etcd, then those of kube-apiserver.
func main() {
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = os.Args[1], "error", true
	client := url.URL{Scheme: "http", Host: "127.0.0.1:" + os.Args[2]}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		log.Fatal(err)
	}
	<-etcd.Server.ReadyNotify()
	command := app.NewAPIServerCommand()
	command.SetArgs(append([]string{"--etcd-servers=" + client.String()}, os.Args[3:]...))
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
