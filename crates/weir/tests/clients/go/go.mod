module weir/tests/clients

go 1.19

require (
	github.com/vishvananda/netlink v1.3.0
	github.com/vishvananda/netns v0.0.4
)

require golang.org/x/sys v0.10.0 // indirect
