module example.org/pair

go 1.19

require (
	github.com/containernetworking/cni v1.1.2
	github.com/containernetworking/plugins v1.1.1
	github.com/vishvananda/netlink v1.1.1-0.20210330154013-f5de75959ad5
)

require (
	github.com/vishvananda/netns v0.0.0-20210104183010-2eb08e3e575f // indirect
	golang.org/x/sys v0.0.0-20210809222454-d867a43fc93e // indirect
)
