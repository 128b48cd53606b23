// go-redis against a server with an empty database 0; the argument is its port.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func check(ok bool, what string) {
	if !ok {
		panic(what)
	}
}

func main() {
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		check(client.Set(ctx, "text", "value", 100*time.Second).Err() == nil, "set")
		value, err := client.Get(ctx, "text").Result()
		check(err == nil && value == "value", "get")
		_, err = client.Get(ctx, "none").Result()
		check(err == redis.Nil, "nil")
		pipe := client.Pipeline()
		for n := 0; n < 500; n++ {
			pipe.Set(ctx, fmt.Sprintf("key:%d", n), n, 0)
		}
		_, err = pipe.Exec(ctx)
		check(err == nil, "pipeline")
		replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "count")
			pipe.Get(ctx, "count")
			return nil
		})
		check(err == nil && len(replies) == 2, "transaction")
		err = client.Watch(ctx, func(tx *redis.Tx) error {
			client.Set(ctx, "count", 7, 0)
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "count", 8, 0)
				return nil
			})
			return err
		}, "count")
		check(err == redis.TxFailedErr, "watch")
		count := 0
		scan := client.Scan(ctx, 0, "key:*", 50).Iterator()
		for scan.Next(ctx) {
			count++
		}
		check(scan.Err() == nil && count == 500, "scan")
		check(client.Incr(ctx, "text").Err() != nil, "incr")
		check(client.FlushDB(ctx).Err() == nil, "flush")
		check(client.Close() == nil, "close")
	}
	fmt.Println("ok")
}
