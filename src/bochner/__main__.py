from bochner.cli import main

main()
