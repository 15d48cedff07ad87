module weir/tests/clients/http

go 1.19
