package main

import (
	"github.com/gofiber/fiber/v3"
	"os"
)

func main() {
	app := fiber.New()
	app.Get("/users/:id", func(c fiber.Ctx) error { return c.JSON(fiber.Map{"id": c.Params("id"), "name": "Ada"}) })
	app.Listen(":" + os.Getenv("PORT"))
}
