// SPDX-License-Identifier: Apache-2.0 OR MIT

// A server and a client of net/http. Without arguments it serves port 8000; otherwise it asks each URL: once with a long
// body, and a hundred times at once.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
)

func serve(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "%s %d", r.Method, n)
}

func ask(client *http.Client, url string, size int) (string, error) {
	answer, err := client.Post(url, "text/plain", bytes.NewReader(make([]byte, size)))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

func main() {
	if len(os.Args) == 1 {
		fmt.Println(http.ListenAndServe(":8000", http.HandlerFunc(serve)))
		os.Exit(1)
	}
	for _, url := range os.Args[1:] {
		client := &http.Client{Transport: &http.Transport{}}
		text, err := ask(client, url, 1000000)
		if errors.Is(err, syscall.ECONNREFUSED) {
			fmt.Println("connection refused")
			continue
		}
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Print(text)
		var group sync.WaitGroup
		for n := 0; n < 100; n++ {
			group.Add(1)
			go func(n int) {
				defer group.Done()
				if text, err := ask(client, url, n); err != nil || text != fmt.Sprintf("POST %d", n) {
					fmt.Print(", ", text, err)
				}
			}(n)
		}
		group.Wait()
		fmt.Println(", a hundred at once")
	}
}
