module nodemaintenance.k8s.io/test/lua

go 1.24.0

require github.com/yuin/gopher-lua v1.1.1
