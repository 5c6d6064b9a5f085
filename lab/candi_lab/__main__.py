from candi_lab.cli import main

main()
