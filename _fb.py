from bench import server, readers
if __name__ == "__main__":
    with server.serving() as place:
        for f in readers.delay(place, 500): print(f, flush=True)
        print(readers.cost(place, 30000, seconds=40), flush=True)
